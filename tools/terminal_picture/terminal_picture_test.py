import os
import sys
import tempfile
import unittest
import xml.etree.ElementTree

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import terminal_picture  # noqa: E402


def shown(text, columns=20):
    screen = terminal_picture.Screen(columns)
    screen.write(text)
    return ["".join(character for character, _ in line) for line in screen.lines]


class ScreenTest(unittest.TestCase):
    def test_lines_are_rewritten_erased_and_wrapped(self):
        self.assertEqual(shown("one\r\ntwo"), ["one", "two"])
        self.assertEqual(shown("10 %\r\x1b[K20 %\r\x1b[2Kdone\n"), ["done", ""])
        self.assertEqual(shown("abcdef", columns=4), ["abcd", "ef"])
        self.assertEqual(shown("a\x1b]0;title\x07b\x1b[?25lc")[0][0], "a")

    def test_colours_begin_and_end(self):
        screen = terminal_picture.Screen(20)
        screen.write("a\x1b[1;32mb\x1b[0mc")
        self.assertEqual([style for _, style in screen.lines[0]], [(), (1, 32), ()])
        self.assertEqual(terminal_picture.runs(screen.lines[0])[1], [1, (1, 32), "b"])


class MainTest(unittest.TestCase):
    def draw(self, *arguments):
        with tempfile.TemporaryDirectory() as folder:
            out = os.path.join(folder, "a.svg")
            status = terminal_picture.main(["--out", out, *arguments])
            if not os.path.exists(out):
                return status, None
            return status, xml.etree.ElementTree.parse(out).getroot()

    def test_draws_what_a_terminal_shows(self):
        status, root = self.draw("--title", "a <title>", "--replace", "/tmp=~", "--", "sh", "-c",
                                 'test -t 1 && printf "\\033[32mgreen\\033[0m & /tmp\\n"')
        self.assertEqual(status, 0)
        texts = {element.text: element.get("fill") for element in root.iter()
                 if element.tag.endswith("text")}
        self.assertEqual(texts["green"], "#7ee787")
        self.assertIn(" & ~", texts)
        self.assertIn("a <title>", texts)

    def test_long_output_keeps_its_ends(self):
        _, root = self.draw("--rows", "10", "--", "seq", "100")
        texts = [element.text for element in root.iter() if element.tag.endswith("text")]
        self.assertIn("1", texts)
        self.assertIn("…", texts)
        self.assertIn("100", texts)
        self.assertNotIn("50", texts)

    def test_a_command_that_fails_is_not_drawn(self):
        status, root = self.draw("--", "false")
        self.assertEqual(status, 1)
        self.assertIsNone(root)


if __name__ == "__main__":
    unittest.main()
