"""Tests of stored_formats: what was released stays, and the page is complete."""

import unittest

import stored_formats

PAGE = """
| keys | `services/a/keys.cc` | `services/a/testdata/stored/keys` |
| `log` | `libs/b/b.h`, `<package>/testdata/stored/<format>.v<N>` |
"""


class StoredFormatsTest(unittest.TestCase):

    def test_a_released_golden_stays(self):
        before = {"a/testdata/stored/x.v1.hex": "1", "a/testdata/stored/y.v1.txt": "2"}
        grown = dict(before, **{"a/testdata/stored/x.v2.hex": "3"})
        self.assertEqual(list(stored_formats.changed(before, grown, set())), [])
        for now in ({**before, "a/testdata/stored/x.v1.hex": "9"},
                    {"a/testdata/stored/y.v1.txt": "2"}):
            self.assertEqual(list(stored_formats.changed(before, now, set())),
                             ["a/testdata/stored/x.v1.hex"])
            self.assertEqual(
                list(stored_formats.changed(before, now, {"a/testdata/stored/x.v1.hex"})), [])

    def test_the_page_is_complete(self):
        goldens = ["services/a/testdata/stored/keys.v1.txt", "services/a/testdata/stored/keys.v2.txt"]
        writers = ["services/a/keys.cc"]
        self.assertEqual(
            list(stored_formats.missing(PAGE, goldens, writers, lambda path: True)), [])
        found = list(stored_formats.missing(PAGE, goldens + ["libs/c/testdata/stored/log.v1.hex"],
                                            writers + ["libs/c/log.cc"], lambda path: True))
        self.assertEqual(len(found), 2)
        self.assertIn("`libs/c/testdata/stored/log`", found[0])
        self.assertIn("`libs/c/log.cc`", found[1])

    def test_what_is_gone_has_no_row(self):
        found = list(stored_formats.missing(PAGE, [], [], lambda path: path != "libs/b/b.h"))
        self.assertEqual(len(found), 2)
        self.assertIn("`libs/b/b.h`", found[0])
        self.assertIn("`services/a/testdata/stored/keys`", found[1])

    def test_what_makes_files_is_found(self):
        for text in ("WriteFileAtomically(path, x, 0600)", "open(p, O_WRONLY | O_CREAT, 0600)",
                     'R"(\nCREATE TABLE t(x)', "std::ofstream out(path)", "ReplaceFile(a, b)"):
            self.assertTrue(stored_formats.MAKES.search(text), text)
        self.assertFalse(stored_formats.MAKES.search("open(path, O_RDONLY)"))
        for path in ("libs/a/a_test.cc", "libs/store/testing/x.cc", "libs/golden/golden.cc"):
            self.assertTrue(stored_formats.NOT_SHIPPED.search(path), path)
        self.assertFalse(stored_formats.NOT_SHIPPED.search("libs/a/latest.cc"))


if __name__ == "__main__":
    unittest.main()
