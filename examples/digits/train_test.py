"""Runs the real program as four processes on this machine, without the platform."""

import http.server
import json
import os
import socket
import socketserver
import subprocess
import sys
import tempfile
import threading
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
RANKS = 4
# Far more than a run needs on a busy machine; a hang fails instead of lasting for ever.
PATIENCE_SECONDS = 240
STEPS = 1200


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class CommitServer:
    """The Task's socket: takes commits down, after answering 503 once as an agent that restarts would."""

    def __init__(self, path):
        commits = self.commits = []

        class Handler(http.server.BaseHTTPRequestHandler):
            refused = False

            def do_POST(self):
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                known = self.path == "/v1/checkpoints:commit"
                code = 200 if known else 404
                if known and not Handler.refused:
                    Handler.refused, code = True, 503
                if code == 200:
                    commits.append(body)
                    os.rename(
                        os.path.join(os.environ["TEST_OUT"], "0", body["dir"]),
                        os.path.join(os.environ["TEST_OUT"], f"committed-{body['step']}"),
                    )
                answer = json.dumps({"step": body["step"], "manifest_digest": "sha256:0"}).encode()
                self.send_response(code)
                self.send_header("Content-Length", str(len(answer)))
                self.end_headers()
                self.wfile.write(answer)

            def address_string(self):
                return "task"

            def log_message(self, *arguments):
                pass

        class Server(socketserver.ThreadingMixIn, socketserver.UnixStreamServer):
            daemon_threads = True

        self._server = Server(path, Handler)
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def close(self):
        self._server.shutdown()
        self._server.server_close()


class TrainTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.root = tempfile.mkdtemp(dir=os.environ.get("TEST_TMPDIR"))
        cls.bucket = os.path.join(cls.root, "bucket")
        subprocess.run(
            [sys.executable, "-B", os.path.join(HERE, "prepare.py"), cls.bucket], check=True
        )

    def out(self, name):
        return os.path.join(self.root, name)

    def start(self, name, **extra):
        """Starts the ranks; extra variables may be given for all of them."""
        base = {
            "OMP_NUM_THREADS": "1",
            "OPENBLAS_NUM_THREADS": "1",
            "WORLD_SIZE": str(RANKS),
            "MASTER_ADDR": "127.0.0.1",
            "MASTER_PORT": str(free_port()),
            "CAPSTAN_JOB_UID": "test",
            "CAPSTAN_GENERATION": "1",
            "CAPSTAN_DATASET_DIGITS": self.bucket,
            "DIGITS_STEPS": str(STEPS),
            "DIGITS_CHECKPOINT_EVERY": "500",
        }
        ranks = []
        for rank in range(RANKS):
            folder = os.path.join(self.out(name), str(rank))
            os.makedirs(folder)
            metrics = os.path.join(self.out(name), f"metrics-{rank}.jsonl")
            environment = {
                **base,
                "RANK": str(rank),
                "CAPSTAN_OUTPUT_DIR": folder,
                "CAPSTAN_METRICS_FILE": metrics,
                **extra,
            }
            if rank != 0:
                # Only rank 0 commits.
                environment.pop("CAPSTAN_SOCKET", None)
            ranks.append(
                subprocess.Popen(
                    [sys.executable, "-B", os.path.join(HERE, "train.py")],
                    env=environment,
                    stdout=subprocess.DEVNULL,
                )
            )
            self.addCleanup(ranks[-1].wait)
            self.addCleanup(ranks[-1].kill)
        return ranks

    def finish(self, ranks):
        for rank in ranks:
            self.assertEqual(rank.wait(timeout=PATIENCE_SECONDS), 0)

    def digests(self, name):
        found = []
        for rank in range(RANKS):
            path = os.path.join(self.out(name), str(rank), "parameters.json")
            with open(path, encoding="utf-8") as file:
                result = json.load(file)
            self.assertEqual((result["rank"], result["step"]), (rank, STEPS))
            found.append(result["sha256"])
        return found

    def evaluate(self, name):
        done = subprocess.run(
            [sys.executable, "-B", os.path.join(HERE, "evaluate.py"), self.out(name) + "/0"],
            stdout=subprocess.PIPE,
            check=True,
        )
        return json.loads(done.stdout)

    def test_ranks_agree_to_the_bit_and_reach_the_accuracy(self):
        self.finish(self.start("joint"))
        joint = self.digests("joint")
        self.assertEqual(len(set(joint)), 1, "all ranks end with the same parameters")
        result = self.evaluate("joint")
        self.assertGreaterEqual(result["accuracy"], 0.95)
        self.assertEqual(result["held_out"], 360)

        self.finish(self.start("alone", DIGITS_EXCHANGE="0"))
        alone = self.digests("alone")
        self.assertEqual(len(set(alone)), RANKS, "without the exchange each rank is on its own")
        self.assertFalse(set(alone) & set(joint))

        with open(self.out("joint") + "/metrics-0.jsonl", encoding="utf-8") as file:
            metrics = [json.loads(line) for line in file]
        self.assertEqual({m["name"] for m in metrics}, {"loss", "train_accuracy"})
        self.assertEqual(metrics[-1]["step"], STEPS)

    def test_a_restarted_gang_ends_where_an_undisturbed_one_does(self):
        self.finish(self.start("undisturbed"))

        os.environ["TEST_OUT"] = self.out("broken")
        # A socket's path is short by nature; Bazel's folders are not.
        short = tempfile.TemporaryDirectory(dir="/tmp")
        self.addCleanup(short.cleanup)
        path = os.path.join(short.name, "task.sock")
        server = CommitServer(path)
        self.addCleanup(server.close)
        # Everything after the checkpoint at 500 is lost.
        ranks = self.start("broken", CAPSTAN_SOCKET=path, DIGITS_STEPS="900")
        self.finish(ranks)
        self.assertEqual(server.commits, [{"dir": "checkpoints/step-000500", "step": 500}])
        self.assertFalse(
            os.path.exists(self.out("broken") + "/0/checkpoints"),
            "what was committed is no result of the Task",
        )

        self.finish(
            self.start(
                "resumed",
                CAPSTAN_RESUME_DIR=self.out("broken") + "/committed-500",
                CAPSTAN_GENERATION="2",
            )
        )
        self.assertEqual(self.digests("resumed"), self.digests("undisturbed"))

    def test_the_gang_fails_when_a_rank_dies(self):
        ranks = self.start("failing", DIGITS_STEPS="100000000")
        metrics = self.out("failing") + "/metrics-0.jsonl"
        while not os.path.exists(metrics):
            self.assertIsNone(ranks[0].poll())
        ranks[2].kill()
        for rank in (0, 1, 3):
            self.assertEqual(ranks[rank].wait(timeout=PATIENCE_SECONDS), 1)

    def test_a_taken_port_has_an_exit_code_of_its_own(self):
        with socket.create_server(("127.0.0.1", 0)) as taken:
            ranks = self.start("taken", MASTER_PORT=str(taken.getsockname()[1]))
            self.assertEqual(ranks[0].wait(timeout=PATIENCE_SECONDS), 98)


if __name__ == "__main__":
    unittest.main()
