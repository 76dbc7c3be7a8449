"""Keeps goldens of stored formats as they were released, and docs/stored_formats.md complete.

Used by contract.py, which does the same for messages.
"""

import re
import subprocess

PAGE = "docs/stored_formats.md"
GOLDENS = "testdata/stored/"
# Its goldens are of no format.
EXAMPLES = "libs/golden/"
# What makes files or tables.
MAKES = re.compile(r"\bWriteFileAtomically\(|\bReplaceFile\(|\bO_CREAT\b|\bstd::ofstream\b"
                   r"|\bCREATE TABLE\b")
SOURCES = ("libs/*.cc", "services/*.cc", "tools/capstan/*.cc")
NOT_SHIPPED = re.compile(r"_(test|benchmark|bench|bench_main)\.cc$|/testing/|^libs/(golden|fuzzing)/"
                         r"|/http_test_server")


def golden_of(path):
    """`<package>/testdata/stored/<format>` of a golden's file."""
    return re.sub(r"\.v\d+\.\w+$", "", path)


def named(page):
    """What a page names in backticks that is a path of the tree."""
    return {word for word in re.findall(r"`([^`\n]+)`", page)
            if "/" in word and (word.endswith((".cc", ".h")) or GOLDENS in word) and "<" not in word}


def missing(page, goldens, writers, there):
    """What the page lacks, or names though it is not there. `there` tells of a source."""
    names = named(page)
    formats = {golden_of(path) for path in goldens}
    for format_of in sorted(formats - names):
        yield f"{PAGE}: has no row for `{format_of}`"
    for writer in sorted(set(writers) - names):
        yield (f"{PAGE}: `{writer}` makes files or tables: say of what format, with goldens "
               f"({PAGE}, \"Changing one\"), or why it needs none")
    for name in sorted(names):
        if GOLDENS in name and name not in formats:
            yield f"{PAGE}: there is no golden of `{name}`"
        if GOLDENS not in name and not there(name):
            yield f"{PAGE}: there is no `{name}`"


def changed(before, now, excused):
    """Goldens that are not what they were. Both by path, with a digest."""
    for path, digest in sorted(before.items()):
        if path not in excused and now.get(path) != digest:
            yield path


def git(*arguments):
    return subprocess.run(("git",) + arguments, check=False, capture_output=True, text=True)


def listed(*patterns):
    out = git("ls-files", "--cached", "--others", "--exclude-standard", "--", *patterns).stdout
    return sorted(set(out.splitlines()))


def exists(path):
    try:
        with open(path, "rb"):
            return True
    except OSError:
        return False


def is_golden(path):
    return GOLDENS in path and not path.startswith(EXAMPLES)


def goldens_at(base):
    """By path, the blobs of a commit; None if there is no such commit here."""
    tree = git("ls-tree", "-r", base)
    if tree.returncode != 0:
        return None
    entries = (line.split(None, 3) for line in tree.stdout.splitlines())
    return {path: blob for _, _, blob, path in entries if is_golden(path)}


def goldens_now():
    paths = [path for path in listed(f"*/{GOLDENS}*") if is_golden(path) and exists(path)]
    if not paths:
        return {}
    blobs = git("hash-object", "--", *paths).stdout.split()
    return dict(zip(paths, blobs))


def writers_now():
    writers = []
    for path in listed(*SOURCES):
        if NOT_SHIPPED.search(path) or not exists(path):
            continue
        with open(path, encoding="utf-8") as file:
            if MAKES.search(file.read()):
                writers.append(path)
    return writers


def check(excused):
    """What is wrong, a line each."""
    now = goldens_now()
    with open(PAGE, encoding="utf-8") as file:
        yield from missing(file.read(), now, writers_now(), exists)
    # As contract.py compares: what is not committed yet, and what was committed last.
    for base in ("HEAD", "HEAD~1"):
        for path in changed(goldens_at(base) or {}, now, excused):
            yield (f"{path} is not what it was in {base}: what was released stays, and a new version "
                   f"goes beside it ({PAGE})")
