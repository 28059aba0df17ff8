# An image of the static binary with Python, for a server with accounts. Build the binary first:
#   scripts/build-static && docker build --tag nanoclaw .
#   docker run --detach --name nanoclaw --publish 127.0.0.1:8787:8787 --volume nanoclaw:/var/lib/nanoclaw \
#     --cap-drop ALL --security-opt no-new-privileges --stop-timeout 40 nanoclaw
#   docker logs nanoclaw       # the first start prints the invite for the administrator's account
#   docker exec nanoclaw nanoclaw doctor
#
# Seccomp: the sandbox calls landlock_create_ruleset, landlock_add_rule, landlock_restrict_self and seccomp.
# Docker's own profile permits them since version 23. An older Docker or another profile must permit them too
# (--security-opt seccomp=FILE). Without them no code runs, and doctor says so. The container needs no
# capability, no --privileged and no seccomp=unconfined. gVisor has no landlock.
FROM debian:12-slim

# Commands of models use the programs of this image: add here what they need.
# hadolint ignore=DL3008
RUN apt-get update \
    && apt-get install --yes --no-install-recommends python3 \
    && rm -rf /var/lib/apt/lists/* \
    && groupadd --gid 10001 nanoclaw \
    && useradd --uid 10001 --gid nanoclaw --no-log-init --no-create-home --home-dir /var/lib/nanoclaw nanoclaw \
    && install --directory --owner nanoclaw --group nanoclaw --mode 0700 /var/lib/nanoclaw

COPY LICENSE LICENSE-APACHE LICENSE-MIT /usr/share/doc/nanoclaw/
COPY --chmod=0755 dist/nanoclaw /usr/bin/nanoclaw

# A published port needs an address that is not loopback, and such an address needs accounts.
ENV NANOCLAW_LISTEN=0.0.0.0:8787 \
    NANOCLAW_AUTH_MODE=multi \
    NANOCLAW_DATA_DIR=/var/lib/nanoclaw
USER 10001:10001
WORKDIR /var/lib/nanoclaw
VOLUME /var/lib/nanoclaw
EXPOSE 8787
HEALTHCHECK --interval=30s --timeout=5s --start-period=10s \
    CMD ["python3", "-c", "import urllib.request as r; r.urlopen('http://127.0.0.1:8787/healthz', timeout=4)"]
ENTRYPOINT ["nanoclaw"]
CMD ["serve"]
