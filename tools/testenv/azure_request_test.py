"""Tests of azure_request: what is signed, and what a connection string says."""

import unittest

import azure_request

DATE = "Fri, 26 Jun 2015 23:39:12 GMT"


class AzureRequestTest(unittest.TestCase):

    def test_reads_connection_strings(self):
        settings = azure_request.settings_of(
            "DefaultEndpointsProtocol=http;AccountName=one;AccountKey=a2V5==;BlobEndpoint=http://h:1/one;\n")
        self.assertEqual(settings["AccountKey"], "a2V5==")
        self.assertEqual(settings["BlobEndpoint"], "http://h:1/one")

    def test_signs_what_the_reference_says(self):
        # The example "List Blobs" of the reference, by version 2015-02-21.
        headers = {"x-ms-date": DATE, "x-ms-version": "2015-02-21"}
        text = azure_request.string_to_sign(
            "GET", "https://myaccount.blob.core.windows.net/mycontainer?restype=container&comp=metadata",
            "myaccount", headers, None)
        self.assertEqual(text, "GET" + "\n" * 12 + "x-ms-date:%s\nx-ms-version:2015-02-21\n"
                         "/myaccount/mycontainer\ncomp:metadata\nrestype:container" % DATE)

    def test_counts_a_body_and_names_its_type(self):
        text = azure_request.string_to_sign("PUT", "http://127.0.0.1:1/a/c/b", "a",
                                            {"Content-Type": "application/octet-stream"}, b"four")
        self.assertEqual(text.split("\n")[:6], ["PUT", "", "", "4", "", "application/octet-stream"])
        self.assertEqual(text.split("\n")[-1], "/a/a/c/b")


if __name__ == "__main__":
    unittest.main()
