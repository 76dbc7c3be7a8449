"""The little of Google Cloud Storage that testenv speaks, to a server that knows no accounts."""

import json
import urllib.parse

import http_request


def make_bucket(url, project, name):
    http_request.send("POST", "%s/storage/v1/b?project=%s" % (url, urllib.parse.quote(project)),
                      {"Content-Type": "application/json"}, json.dumps({"name": name}).encode())
