#!/usr/bin/env python3
"""Runs a command in a terminal of its own and draws what it shows as an SVG: the README's picture is a real run.

usage: picture.py OUT.svg [--columns N] [--show TEXT] -- COMMAND...

--show is what stands behind the prompt sign instead of the command itself.  Python's standard library only.
"""
import argparse, fcntl, html, os, pty, re, struct, subprocess, termios

CHAR_W, LINE_H, PAD, BAR = 8.43, 19, 16, 30
COLOURS = {"back": "#16181d", "bar": "#23262e", "text": "#d7dae0", "dim": "#868c98", "sign": "#7cc379"}


def run(command, columns):
    master, slave = pty.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 50, columns, 0, 0))
    env = {k: v for k, v in os.environ.items() if not k.startswith("SLUICE_") and k != "NO_COLOR"}
    process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=slave, stderr=slave, env={**env, "TERM": "xterm"})
    os.close(slave)
    shown = b""
    while True:
        try:
            data = os.read(master, 65536)
        except OSError:
            break
        if not data:
            break
        shown += data
    if process.wait():
        raise SystemExit(f"{command}: exit {process.returncode}\n{shown.decode('utf-8', 'replace')}")
    return shown.decode("utf-8", "replace")


def screen(text, columns):
    """Lines of (character, is_dim), after carriage returns.  Long lines are cut between words, for the eye."""
    lines, row, column, dim = [[]], 0, 0, False
    for part in re.split(r"(\x1b\[[0-9;]*[A-Za-z])", text):
        if part.startswith("\x1b"):
            dim = {"\x1b[2m": True, "\x1b[0m": False}.get(part, dim)
            continue
        for ch in part:
            if ch == "\r":
                column = 0
            elif ch == "\n":
                lines.append([])
                row, column = row + 1, 0
            elif column == columns:
                word = next((i for i in range(column, column - 24, -1) if lines[row][i - 1][0] == " "), column)
                lines[row], rest = lines[row][:word], lines[row][word:] if ch != " " else []
                lines.append(rest)
                row, column = row + 1, len(rest)
                if ch == " ":
                    continue
            if ch < " " or ch == "\x7f":
                continue
            line = lines[row]
            line.extend([(" ", False)] * (column + 1 - len(line)))
            line[column] = (ch, dim)
            column += 1
    lines = [l[:max((i + 1 for i, (ch, _) in enumerate(l) if ch != " "), default=0)] for l in lines]
    while lines and not lines[-1]:
        lines.pop()
    return lines


def spans(line):
    """Runs of the same brightness as SVG."""
    out, i = "", 0
    while i < len(line):
        j = i
        while j < len(line) and line[j][1] == line[i][1]:
            j += 1
        colour = COLOURS["dim" if line[i][1] else "text"]
        out += f'<tspan fill="{colour}">{html.escape("".join(ch for ch, _ in line[i:j]))}</tspan>'
        i = j
    return out


def draw(shown, command, columns):
    sign = f'<tspan fill="{COLOURS["sign"]}">$</tspan> <tspan fill="{COLOURS["text"]}">{html.escape(command)}</tspan>'
    rows = [sign] + [spans(line) for line in screen(shown, columns)]
    width, height = round(2 * PAD + columns * CHAR_W), BAR + 2 * PAD + len(rows) * LINE_H
    dots = "".join(f'<circle cx="{18 + 18 * i}" cy="15" r="5.5" fill="{c}"/>'
                   for i, c in enumerate(("#e06c60", "#e0b856", "#6cbf5f")))
    body = "".join(f'<text x="{PAD}" y="{BAR + PAD + 13 + i * LINE_H}" xml:space="preserve">{row}</text>\n'
                   for i, row in enumerate(rows))
    return (f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" viewBox="0 0 {width} {height}">\n'
            f'<rect width="{width}" height="{height}" rx="8" fill="{COLOURS["back"]}"/>\n'
            f'<path d="M0 {BAR}V8a8 8 0 0 1 8-8H{width - 8}a8 8 0 0 1 8 8V{BAR}z" fill="{COLOURS["bar"]}"/>\n{dots}\n'
            f'<g font-family="DejaVu Sans Mono,Menlo,Consolas,monospace" font-size="14">\n{body}</g>\n</svg>\n')


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("out")
    ap.add_argument("--columns", type=int, default=88)
    ap.add_argument("--show")
    ap.add_argument("command", nargs="+")
    args = ap.parse_args()
    picture = draw(run(args.command, args.columns), args.show or " ".join(args.command), args.columns)
    with open(args.out, "w", encoding="utf-8") as f:
        f.write(picture)


main()
