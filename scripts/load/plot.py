"""Draws the samples of a soak as SVG: one panel for each kind of value. Vertical lines are restarts."""
from html import escape

WIDTH, HEIGHT, LEFT, TOP, RIGHT = 960, 130, 70, 26, 150
COLOURS = ["#2563a8", "#c2521b", "#2e7d4f", "#7a4ea3"]
MARKS = {"kill -9": "#c0392b", "SIGTERM": "#888888"}


def series(rows, name, scale=1.0):
    return [(row["t"], row[name] * scale) for row in rows if row.get(name) is not None]


def panels(record, windows):
    """(title, unit, [(name, points)])."""
    rows, mib = record["samples"], 1 / 1024
    rates = [(b["t"], (b["ended"] - a["ended"]) / (b["t"] - a["t"])) for a, b in zip(rows, rows[10:])
             if b["life"] == a["life"] and b["t"] > a["t"]]
    middle = [(begin, sorted(answers)[len(answers) // 2]) for begin, answers in windows]
    top = [(begin, sorted(answers)[min(len(answers) - 1, int(len(answers) * 0.99))]) for begin, answers in windows]
    return [
        ("memory", "MiB", [("server, resident", series(rows, "rss_kb", mib)), ("server, anonymous", series(rows, "anon_kb", mib)),
                           ("broker, resident", series(rows, "broker_rss_kb", mib)),
                           ("broker, anonymous", series(rows, "broker_anon_kb", mib))]),
        ("threads, descriptors, processes", "", [("threads", series(rows, "threads")), ("descriptors", series(rows, "fds")),
                                                 ("broker's descriptors", series(rows, "broker_fds")),
                                                 ("child processes", series(rows, "processes"))]),
        ("files", "MiB", [("store", series(rows, "store_bytes", 2**-20)), ("data directory", series(rows, "data_bytes", 2**-20))]),
        ("probe job, submission to answer", "ms", [("p50", middle), ("p99", top)]),
        ("jobs", "", [("ended a second", rates), ("queued", series(rows, "queued"))]),
        ("errors, total", "", [("calls cut off", series(rows, "cut_off")), ("violations", series(rows, "violations"))]),
    ]


def round_up(value):
    """The next larger round number."""
    size = 1.0
    while size < value:
        size *= 10
    return next((size * part for part in (0.1, 0.2, 0.25, 0.5) if size * part >= value), size)


def panel(number, title, unit, lines, end, marks):
    top, inner = 40 + number * (HEIGHT + TOP + 16), WIDTH - LEFT - RIGHT
    most = round_up(max((value for _, points in lines for _, value in points), default=1) or 1)
    x, y = lambda t: LEFT + inner * t / end, lambda value: top + HEIGHT - HEIGHT * value / most
    out = [f'<text x="{LEFT}" y="{top - 6}" font-weight="bold">{escape(title)}{", " + unit if unit else ""}</text>']
    for part in range(5):
        value = most * part / 4
        out.append(f'<line x1="{LEFT}" x2="{LEFT + inner}" y1="{y(value):.1f}" y2="{y(value):.1f}" stroke="#e4e4e4"/>')
        out.append(f'<text x="{LEFT - 6}" y="{y(value) + 4:.1f}" text-anchor="end">{value:g}</text>')
    for moment, kind in marks:
        out.append(f'<line x1="{x(moment):.1f}" x2="{x(moment):.1f}" y1="{top}" y2="{top + HEIGHT}" stroke="{MARKS[kind]}" '
                   f'stroke-dasharray="3 3"><title>{escape(kind)} at {moment:.0f} s</title></line>')
    for place, (name, points) in enumerate(lines):
        colour = COLOURS[place % len(COLOURS)]
        path = " ".join(f"{x(t):.1f},{y(value):.1f}" for t, value in points)
        out.append(f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="1.3"/>')
        last = f" {points[-1][1]:.4g}" if points else ""
        out.append(f'<text x="{LEFT + inner + 8}" y="{top + 12 + 16 * place}" fill="{colour}">{escape(name)}{last}</text>')
    return out


def draw(record, windows, title):
    """The whole SVG document."""
    end = max([row["t"] for row in record["samples"]] + [1])
    parts = panels(record, windows)
    height = 60 + len(parts) * (HEIGHT + TOP + 16) + 20
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" font-family="sans-serif" font-size="11">',
           f'<rect width="{WIDTH}" height="{height}" fill="white"/>', f'<text x="{LEFT}" y="18" font-size="14">{escape(title)}</text>']
    for number, (name, unit, lines) in enumerate(parts):
        out += panel(number, name, unit, lines, end, record["marks"])
    below = height - 24
    for part in range(7):
        t = end * part / 6
        out.append(f'<text x="{LEFT + (WIDTH - LEFT - RIGHT) * part / 6:.1f}" y="{below}" text-anchor="middle">{t / 60:.1f} min</text>')
    for place, (kind, colour) in enumerate(MARKS.items()):
        out.append(f'<text x="{LEFT + 90 * place}" y="{below + 18}" fill="{colour}">┆ {escape(kind)}</text>')
    return "\n".join(out + ["</svg>", ""])
