"""The little of S3 that testenv speaks: requests signed with Signature Version 4, and a bucket made."""

import configparser
import datetime
import hashlib
import hmac
import urllib.parse

import http_request

REGION = "us-east-1"


def signature(secret, day, region, to_sign):
    key = ("AWS4" + secret).encode()
    for part in (day, region, "s3", "aws4_request"):
        key = hmac.new(key, part.encode(), hashlib.sha256).digest()
    return hmac.new(key, to_sign.encode(), hashlib.sha256).hexdigest()


def signed_headers(method, url, body, access_key, secret, now, region=REGION):
    """The headers that make a request one of the key's owner."""
    parts = urllib.parse.urlsplit(url)
    digest = hashlib.sha256(body).hexdigest()
    time = now.strftime("%Y%m%dT%H%M%SZ")
    headers = {"host": parts.netloc, "x-amz-content-sha256": digest, "x-amz-date": time}
    names = ";".join(headers)
    query = "&".join(sorted(one if "=" in one else one + "=" for one in parts.query.split("&") if one))
    canonical = "\n".join([method, parts.path or "/", query,
                           *("%s:%s" % one for one in headers.items()), "", names, digest])
    scope = "%s/%s/s3/aws4_request" % (time[:8], region)
    to_sign = "\n".join(["AWS4-HMAC-SHA256", time, scope, hashlib.sha256(canonical.encode()).hexdigest()])
    headers["authorization"] = "AWS4-HMAC-SHA256 Credential=%s/%s, SignedHeaders=%s, Signature=%s" % (
        access_key, scope, names, signature(secret, time[:8], region, to_sign))
    return headers


def request(method, url, credentials, body=b""):
    """Sends a request as the owner of the default profile in a credentials file; returns the body."""
    profile = configparser.ConfigParser(interpolation=None)
    with open(credentials, encoding="utf-8") as file:
        profile.read_file(file)
    headers = signed_headers(method, url, body, profile["default"]["aws_access_key_id"],
                             profile["default"]["aws_secret_access_key"],
                             datetime.datetime.now(datetime.timezone.utc))
    return http_request.send(method, url, headers, body or None)


def make_bucket(url, credentials, name):
    request("PUT", "%s/%s" % (url, name), credentials)
