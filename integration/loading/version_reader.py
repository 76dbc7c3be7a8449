#!/usr/bin/env python3
"""Reads what a Site shows, over and over, as a Task's machine would, and says what is not whole.

usage: version_reader.py VERSIONS_FOLDER LOG

A version's folder is named by the SHA-256 of its canonical form: for each file, by path, one line
`<sha256 hex> <size> <x or -> <path>`. So whatever is seen under a name either is all of that version, or
is wrong. Each version is looked at as soon as it is seen, and again whenever something of it has
changed. LOG gets `seen <digest>` for each that is right, and `wrong <digest> <what>`. Says by
systemd's protocol that it is ready.
"""

import hashlib
import os
import socket
import sys
import time


def state_of(folder):
    """What changes if anything of it does; raises FileNotFoundError if it goes meanwhile."""
    files = []
    for at, folders, names in os.walk(folder, onerror=fail):
        folders.sort()
        for name in sorted(names):
            path = os.path.join(at, name)
            info = os.lstat(path)
            files.append((os.path.relpath(path, folder), info.st_mode, info.st_size, info.st_ino,
                          info.st_mtime_ns))
    return sorted(files, key=lambda file: os.fsencode(file[0]))


def fail(error):
    raise error


def digest_of(folder, files):
    whole = hashlib.sha256()
    for path, mode, size, _, _ in files:
        one = hashlib.sha256()
        with open(os.path.join(folder, path), "rb") as file:
            while chunk := file.read(1 << 20):
                one.update(chunk)
        executable = "x" if mode & 0o100 else "-"
        whole.update(f"{one.hexdigest()} {size} {executable} ".encode() + os.fsencode(path) + b"\n")
    return whole.hexdigest()


def look(versions, known, log):
    for name in os.listdir(versions):
        folder = os.path.join(versions, name)
        if not os.path.isdir(folder):
            continue
        try:
            files = state_of(folder)
            if known.get(name) == files:
                continue
            digest = digest_of(folder, files)
        except FileNotFoundError:
            if os.path.isdir(folder):
                log.write(f"wrong {name} a file went\n")
            continue
        known[name] = files
        if digest != name:
            log.write(f"wrong {name} is {digest}\n")
        elif any(mode & 0o222 for _, mode, _, _, _ in files):
            log.write(f"wrong {name} can be written\n")
        elif not os.path.isfile(folder + ".manifest"):
            log.write(f"wrong {name} has no manifest\n")
        else:
            log.write(f"seen {name}\n")
        log.flush()


def main():
    versions, known = sys.argv[1], {}
    with open(sys.argv[2], "a", encoding="utf-8") as log:
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as notify:
            address = os.environ["NOTIFY_SOCKET"]
            notify.connect("\0" + address[1:] if address.startswith("@") else address)
            notify.sendall(b"READY=1")
        while True:
            if os.path.isdir(versions):
                look(versions, known, log)
            # Some hundred looks a second, and a core left to those who are looked at.
            time.sleep(0.002)


if __name__ == "__main__":
    main()
