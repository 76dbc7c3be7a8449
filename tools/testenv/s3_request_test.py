"""Tests of signatures against the examples in Amazon's documentation of Signature Version 4."""

import datetime
import unittest

import s3_request

NOW = datetime.datetime(2013, 5, 24, tzinfo=datetime.timezone.utc)
# Published as an example: no one's.
KEY = ("AKIAIOSFODNN7EXAMPLE", "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY")


class SignatureTest(unittest.TestCase):

    def test_published_examples(self):
        for query, expected in (
                ("lifecycle", "fea454ca298b7da1c68078a5d1bdbfbbe0d65c699e0f91ac7a200a0136783543"),
                ("max-keys=2&prefix=J", "34b48302e7b5fa45bde8084f4b7868a86f0a534bc59db6670ed5711ef69dc6f7")):
            headers = s3_request.signed_headers(
                "GET", "https://examplebucket.s3.amazonaws.com/?" + query, b"", *KEY, NOW)
            self.assertTrue(headers["authorization"].endswith("Signature=" + expected), headers)


if __name__ == "__main__":
    unittest.main()
