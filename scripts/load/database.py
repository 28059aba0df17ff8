"""PostgreSQL servers of a trial: in a temporary directory, on a loopback port, flushed to disk as always. They end
with this program."""
import glob, os, pwd, shutil, signal, subprocess, time

from server import free_port

STOP = {"fast": signal.SIGINT, "immediate": signal.SIGQUIT}
SETTINGS = ["-c", "listen_addresses=127.0.0.1", "-c", "max_connections=300", "-c", "unix_socket_directories=",
            "-c", "recovery_init_sync_method=syncfs"]  # after a crash: one flush of the disk instead of one of each file


def commands():
    """The directory of the newest installed version's programs; `None` without PostgreSQL."""
    found = glob.glob("/usr/lib/postgresql/*/bin/postgres")
    return os.path.dirname(max(found, key=lambda path: int(path.split("/")[4]))) if found else None


def owned_directory(path):
    """Makes a directory for the account that the database runs as: it refuses to run as root."""
    os.makedirs(path, exist_ok=True)
    os.chmod(path, 0o755)
    if os.getuid() == 0:
        account = pwd.getpwnam("postgres")
        os.chown(path, account.pw_uid, account.pw_gid)
    return path


def as_postgres(*command):
    account = ["--reuid=postgres", "--regid=postgres", "--clear-groups"] if os.getuid() == 0 else []
    return ["setpriv", *account, "--pdeathsig=QUIT", *command]


class Database:
    """One server."""

    def __init__(self, directory, name="database"):
        self.home = owned_directory(os.path.join(directory, name))
        self.data, self.port, self.process = os.path.join(self.home, "data"), free_port(), None

    def run(self, program, *arguments):
        command = as_postgres(os.path.join(commands(), program), *arguments)
        done = subprocess.run(command, capture_output=True, text=True, cwd=self.home)
        if done.returncode:
            raise OSError(f"{program}: {done.stderr.strip()}")

    def create(self):
        self.run("initdb", "--auth=trust", "--username=postgres", "-D", self.data)
        self.start()

    def copy(self, primary):
        """Becomes a standby of another server."""
        shutil.rmtree(self.data, ignore_errors=True)
        source = f"host=127.0.0.1 port={primary.port} user=postgres application_name=standby"
        self.run("pg_basebackup", "-D", self.data, "-R", "-X", "stream", "-c", "fast", "-d", source)
        self.start()

    def start(self):
        with open(os.path.join(self.home, "log"), "ab") as log:
            command = as_postgres(os.path.join(commands(), "postgres"), "-D", self.data, "-p", str(self.port), *SETTINGS)
            self.process = subprocess.Popen(command, stdout=log, stderr=log, cwd=self.home)
        until = time.monotonic() + 60
        while True:
            try:
                return self.sql("SELECT 1")
            except OSError:
                if time.monotonic() > until:
                    raise
                time.sleep(0.05)

    def stop(self, how):
        self.process.send_signal(STOP[how])
        self.process.wait()

    def restart(self, how):
        self.stop(how)
        self.start()

    def sql(self, statement):
        """The output of a statement."""
        command = [os.path.join(commands(), "psql"), "-h", "127.0.0.1", "-p", str(self.port), "-U", "postgres", "-qAt",
                   "-v", "ON_ERROR_STOP=1", "-c", statement, "postgres"]
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode:
            raise OSError(done.stderr.strip())
        return done.stdout.strip()


class ReplicatedDatabase:
    """A primary and a standby that has every commit before it is acknowledged."""

    def __init__(self, directory):
        self.primary, self.standby = Database(directory, "one"), Database(directory, "two")

    def create(self):
        self.primary.create()
        self.replicate()

    def replicate(self):
        """Makes the standby, and returns when it has everything."""
        self.standby.copy(self.primary)
        self.primary.sql("ALTER SYSTEM SET synchronous_standby_names = 'standby'")
        self.primary.sql("SELECT pg_reload_conf()")
        reached = f"flush_lsn >= '{self.primary.sql('SELECT pg_current_wal_lsn()')}' AND sync_state = 'sync'"
        until = time.monotonic() + 60
        while self.primary.sql(f"SELECT count(*) FROM pg_stat_replication WHERE {reached}") != "1":
            if time.monotonic() > until:
                raise OSError("the standby does not follow")
            time.sleep(0.05)

    def fail_over(self):
        """The primary dies, and the standby takes its place."""
        self.primary.stop("immediate")
        self.primary, self.standby = self.standby, self.primary
        self.primary.sql("SELECT pg_promote(true, 60)")

    def sql(self, statement):
        return self.primary.sql(statement)

    def stop(self, how):
        self.standby.stop(how)
        self.primary.stop(how)
