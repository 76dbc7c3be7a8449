"""The part of the Task contract (docs/task_contract.md) that is more than reading a variable."""

import http.client
import json
import os
import socket
import sys
import time

COMMIT_SECONDS = 60


class _UnixConnection(http.client.HTTPConnection):
    def __init__(self, path):
        super().__init__("localhost", timeout=30)
        self._path = path

    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self._path)


def commit_checkpoint(directory, step):
    """True once the checkpoint is committed. Without a platform there is nothing to ask."""
    path = os.environ.get("CAPSTAN_SOCKET")
    if path is None:
        return True
    body = json.dumps({"dir": directory, "step": step})
    deadline = time.monotonic() + COMMIT_SECONDS
    pause = 0.1
    while True:
        try:
            connection = _UnixConnection(path)
            connection.request(
                "POST", "/v1/checkpoints:commit", body, {"Content-Type": "application/json"}
            )
            answer = connection.getresponse()
            text = answer.read().decode(errors="replace")
            connection.close()
            if answer.status == 200:
                return True
            if answer.status < 500:
                sys.exit(f"checkpoint {step} was refused: {answer.status} {text}")
            trouble = f"{answer.status} {text}"
        except (OSError, http.client.HTTPException) as error:
            # The Node's agent is being restarted; the commit is idempotent.
            trouble = str(error)
        if time.monotonic() > deadline:
            print(f"checkpoint {step} is not committed: {trouble}", file=sys.stderr, flush=True)
            return False
        time.sleep(pause)
        pause = min(2.0, pause * 2)


def write_metrics(step, **values):
    path = os.environ.get("CAPSTAN_METRICS_FILE")
    if path is None:
        return
    lines = "".join(
        json.dumps({"step": step, "name": name, "value": float(value)}) + "\n"
        for name, value in values.items()
    )
    # One write, appended: whoever follows the file sees whole lines.
    descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    try:
        os.write(descriptor, lines.encode())
    finally:
        os.close(descriptor)
