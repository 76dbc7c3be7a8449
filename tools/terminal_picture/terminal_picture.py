#!/usr/bin/env python3
"""Runs a command in a pseudo-terminal and draws what it leaves on the screen as an SVG.

usage: terminal_picture.py [--columns N] [--rows N] [--title TEXT] [--replace FROM=TO]... --out FILE
                           -- COMMAND...

The picture in the README is made by:

    ./dev build //tools/capstan
    python3 tools/terminal_picture/terminal_picture.py --out docs/demo.svg --title 'capstan dev demo' \\
        --rows 34 -- bazel-bin/tools/capstan/capstan --data-dir /tmp/capstan-demo dev demo

The screen understands what the command line writes: text in UTF-8, newlines, carriage returns, the
erasing of a line, and colours (SGR 0, 1, 2, 30 to 37). Other sequences are skipped.
"""

import argparse
import fcntl
import html
import os
import pty
import re
import struct
import sys
import termios

COLOURS = {31: "#ff7b72", 32: "#7ee787", 33: "#e3b341", 34: "#79c0ff", 35: "#d2a8ff", 36: "#76e3ea"}
FOREGROUND, BACKGROUND, BAR = "#d0d7de", "#161b22", "#21262d"
CHARACTER_WIDTH, LINE_HEIGHT, MARGIN, BAR_HEIGHT = 8.4, 19, 16, 32
SEQUENCE = re.compile(r"\x1b\[([0-9;?]*)([A-Za-z])|\x1b[^\[]|[\r\n]|[^\x1b\r\n]+")


class Screen:
    """Lines of (character, style); the cursor is always on the last one."""

    def __init__(self, columns):
        self.columns = columns
        self.lines = [[]]
        self.column = 0
        self.style = ()

    def write(self, text):
        for match in SEQUENCE.finditer(text):
            piece = match.group(0)
            if piece == "\n":
                self.lines.append([])
                self.column = 0
            elif piece == "\r":
                self.column = 0
            elif match.group(2) == "m":
                self.set_style(match.group(1))
            elif match.group(2) == "K":
                self.erase(match.group(1))
            elif piece[0] != "\x1b":
                for character in piece:
                    self.put(character)

    def put(self, character):
        if character < " ":
            return
        if self.column >= self.columns:
            self.lines.append([])
            self.column = 0
        line = self.lines[-1]
        line.extend([(" ", ())] * (self.column + 1 - len(line)))
        line[self.column] = (character, self.style)
        self.column += 1

    def set_style(self, numbers):
        for number in (int(n or 0) for n in numbers.split(";")):
            self.style = () if number == 0 else tuple(sorted({*self.style, number}))

    def erase(self, how):
        line = self.lines[-1]
        if how == "2":
            line.clear()
        elif how in ("", "0"):
            del line[self.column:]


def runs(line):
    """(column, style, text) of each stretch of one style."""
    found = []
    for column, (character, style) in enumerate(line):
        if found and found[-1][1] == style:
            found[-1][2] += character
        else:
            found.append([column, style, character])
    return found


def attributes(style):
    out = ""
    for number in style:
        if number in COLOURS:
            out += f' fill="{COLOURS[number]}"'
        elif number == 1:
            out += ' font-weight="bold"'
        elif number == 2:
            out += ' opacity="0.6"'
    return out


def draw(lines, columns, title):
    width = columns * CHARACTER_WIDTH + 2 * MARGIN
    height = len(lines) * LINE_HEIGHT + BAR_HEIGHT + 2 * MARGIN
    out = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:.0f} {height:.0f}" '
        f'width="{width:.0f}" height="{height:.0f}" role="img">',
        f"<title>{html.escape(title)}</title>",
        f'<rect width="100%" height="100%" rx="8" fill="{BACKGROUND}"/>',
        f'<path d="M0 {BAR_HEIGHT}V8a8 8 0 0 1 8-8h{width - 16:.0f}a8 8 0 0 1 8 8v{BAR_HEIGHT - 8}z" '
        f'fill="{BAR}"/>',
    ]
    for i, colour in enumerate(("#ff5f57", "#febc2e", "#28c840")):
        out.append(f'<circle cx="{18 + 18 * i}" cy="{BAR_HEIGHT / 2:.0f}" r="5.5" fill="{colour}"/>')
    font = 'font-family="ui-monospace,SFMono-Regular,Menlo,Consolas,monospace" font-size="14"'
    out.append(
        f'<text x="{width / 2:.0f}" y="{BAR_HEIGHT / 2 + 5:.0f}" text-anchor="middle" {font} '
        f'fill="{FOREGROUND}" opacity="0.7">{html.escape(title)}</text>')
    out.append(f'<g {font} fill="{FOREGROUND}" xml:space="preserve">')
    for row, line in enumerate(lines):
        y = BAR_HEIGHT + MARGIN + (row + 0.75) * LINE_HEIGHT
        for column, style, text in runs(line):
            if not text.strip():
                continue
            x = MARGIN + column * CHARACTER_WIDTH
            # The length holds the columns in place, whatever font there is.
            out.append(
                f'<text x="{x:.1f}" y="{y:.1f}" textLength="{len(text) * CHARACTER_WIDTH:.1f}"'
                f"{attributes(style)}>{html.escape(text)}</text>")
    out += ["</g>", "</svg>", ""]
    return "\n".join(out)


def record(command, columns, rows):
    """What the command writes, and its exit status."""
    pid, master = pty.fork()
    if pid == 0:
        os.environ.update(TERM="xterm-256color", LANG="C.UTF-8", COLUMNS=str(columns))
        os.environ.pop("NO_COLOR", None)
        fcntl.ioctl(0, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
        os.execvp(command[0], command)
    written = b""
    while True:
        try:
            piece = os.read(master, 65536)
        except OSError:  # EIO: the last process has closed the terminal.
            break
        if not piece:
            break
        written += piece
    _, status = os.waitpid(pid, 0)
    return written.decode("utf-8", "replace"), os.waitstatus_to_exitcode(status)


def shorten(lines, rows):
    """The first and the last lines, where there are more than `rows`."""
    if len(lines) <= rows:
        return lines
    head = rows * 2 // 5
    gap = [("…", (2,))]
    return lines[:head] + [gap] + lines[len(lines) - (rows - head - 1):]


def main(argv):
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--columns", type=int, default=100)
    parser.add_argument("--rows", type=int, default=40, help="at most so many lines are drawn")
    parser.add_argument("--title", default="")
    parser.add_argument("--replace", action="append", default=[], metavar="FROM=TO",
                        help="e.g. a path of this machine")
    parser.add_argument("--out", required=True)
    parser.add_argument("command", nargs="+")
    options = parser.parse_args(argv)
    text, status = record(options.command, options.columns, options.rows)
    for change in options.replace:
        text = text.replace(*change.split("=", 1))
    if status != 0:
        print(text, file=sys.stderr)
        print(f"{options.command[0]} ended with {status}; nothing is drawn", file=sys.stderr)
        return 1
    screen = Screen(options.columns)
    screen.write(text)
    while screen.lines and not screen.lines[-1]:
        screen.lines.pop()
    with open(options.out, "w", encoding="utf-8") as out:
        out.write(draw(shorten(screen.lines, options.rows), options.columns, options.title))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
