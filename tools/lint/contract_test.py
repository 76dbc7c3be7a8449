"""Tests of contract: what readers of older or newer bytes would miss is found, growth is not."""

import unittest

import contract

BEFORE = [
    "p.Job 1: string name",
    "p.Job 2: int64 size",
    "p.Job 3: repeated p.Task tasks in what",
    "p.State 0: STATE_UNSPECIFIED",
    "p.State 1: STATE_DONE",
    "p.JobService/GetJob: p.GetJobRequest -> p.Job",
]


def without(*lines):
    return [line for line in BEFORE if line not in lines]


class BrokenTest(unittest.TestCase):

    def test_growth(self):
        now = BEFORE + ["p.Job 4: string note", "p.Other 1: bool on",
                        "p.JobService/ListJobs: p.ListJobsRequest -> stream p.Job"]
        self.assertEqual(contract.broken(BEFORE, now, set()), [])

    def test_what_changes_is_found(self):
        for line, instead in (
            ("p.Job 2: int64 size", "p.Job 2: string size"),
            ("p.Job 2: int64 size", "p.Job 5: int64 size"),
            ("p.Job 2: int64 size", "p.Job 2: int64 bytes"),
            ("p.Job 2: int64 size", "p.Job 2: repeated int64 size"),
            ("p.Job 3: repeated p.Task tasks in what", "p.Job 3: repeated p.Task tasks"),
            ("p.State 1: STATE_DONE", "p.State 1: STATE_OVER"),
            ("p.JobService/GetJob: p.GetJobRequest -> p.Job",
             "p.JobService/GetJob: p.GetJobRequest -> stream p.Job"),
        ):
            self.assertEqual(contract.broken(BEFORE, without(line) + [instead], set()), [line])

    def test_what_is_gone_is_found_unless_reserved(self):
        line = "p.Job 2: int64 size"
        self.assertEqual(contract.broken(BEFORE, without(line), set()), [line])
        for reserved, kept in (("2 to 2", []), ("1 to 9", []), ("3 to 9", [line])):
            now = without(line) + [f"p.Job reserved {reserved}"]
            self.assertEqual(contract.broken(BEFORE, now, set()), kept)
        value = "p.State 1: STATE_DONE"
        now = without(value) + ["p.State reserved 1 to 1"]
        self.assertEqual(contract.broken(BEFORE, now, set()), [])
        # Another message's reservation is of no help; a method has no number.
        now = without(line) + ["p.Jobs reserved 2 to 2"]
        self.assertEqual(contract.broken(BEFORE, now, set()), [line])
        method = "p.JobService/GetJob: p.GetJobRequest -> p.Job"
        self.assertEqual(contract.broken(BEFORE, without(method), set()), [method])

    def test_what_is_freed_again_is_found(self):
        reserved = "p.Job reserved 7 to 7"
        self.assertEqual(contract.broken(BEFORE + [reserved], BEFORE, set()), [reserved])
        wider = BEFORE + ["p.Job reserved 7 to 8"]
        self.assertEqual(contract.broken(BEFORE + [reserved], wider, set()), [])

    def test_an_excuse_is_for_its_line(self):
        line = "p.Job 2: int64 size"
        self.assertEqual(contract.broken(BEFORE, without(line), {line}), [])
        self.assertEqual(contract.broken(BEFORE, without(line, BEFORE[0]), {line}), [BEFORE[0]])


class ExcusesTest(unittest.TestCase):

    def test_each_has_its_reason(self):
        self.assertEqual(contract.excuses("# text\n\np.Job 2: int64 size\n    Never written.\n"),
                         {"p.Job 2: int64 size"})
        for text in ("p.Job 2: int64 size\n", "p.Job 2: int64 size\np.Job 3: x y\n    Why.\n"):
            with self.assertRaises(SystemExit):
                contract.excuses(text)


if __name__ == "__main__":
    unittest.main()
