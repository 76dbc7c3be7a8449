"""The little of Azure's blobs that testenv speaks: requests signed with a Shared Key."""

import base64
import email.utils
import hashlib
import hmac
import urllib.parse

import http_request

VERSION = "2021-12-02"


def settings_of(text):
    """A connection string's settings by name."""
    return dict(one.split("=", 1) for one in text.strip().strip(";").split(";"))


def string_to_sign(method, url, account, headers, body):
    """What is signed, as "Authorize with Shared Key" in Azure's reference of the REST API has it."""
    parts = urllib.parse.urlsplit(url)
    # Content-Encoding, -Language, -Length, -MD5, -Type, then Date to Range, none of which is sent.
    standard = [method, "", "", str(len(body)) if body else "", "", headers.get("Content-Type", ""), *[""] * 6]
    own = ["%s:%s" % (name, headers[name]) for name in sorted(headers) if name.startswith("x-ms-")]
    query = ["%s:%s" % one for one in sorted(urllib.parse.parse_qsl(parts.query))]
    # An emulator's path begins with the account, so that it is there twice.
    return "\n".join([*standard, *own, "\n".join(["/%s%s" % (account, parts.path), *query])])


def signed_headers(method, url, settings, body, date):
    """The headers that make a request one of the account's owner."""
    headers = {"x-ms-blob-type": "BlockBlob", "x-ms-date": date, "x-ms-version": VERSION}
    if body is not None:
        headers["Content-Type"] = "application/octet-stream"
    to_sign = string_to_sign(method, url, settings["AccountName"], headers, body)
    digest = hmac.new(base64.b64decode(settings["AccountKey"]), to_sign.encode(), hashlib.sha256).digest()
    headers["Authorization"] = "SharedKey %s:%s" % (settings["AccountName"], base64.b64encode(digest).decode())
    return headers


def request(method, path, connection_string, body=None):
    """Sends a request for a path below the account, as the owner whose connection string the file has;
    returns the body."""
    with open(connection_string, encoding="ascii") as file:
        settings = settings_of(file.read())
    url = settings["BlobEndpoint"] + path
    headers = signed_headers(method, url, settings, body, email.utils.formatdate(usegmt=True))
    return http_request.send(method, url, headers, body)


def make_container(connection_string, name):
    request("PUT", "/%s?restype=container" % name, connection_string, b"")
