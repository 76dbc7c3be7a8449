"""One request over HTTP, straight to the server whatever proxy the environment names."""

import urllib.error
import urllib.request


class Refused(Exception):
    """A server's error."""


def send(method, url, headers, body=None):
    """The body of the answer; Refused unless it is one of success."""
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with opener.open(urllib.request.Request(url, data=body, headers=headers, method=method),
                         timeout=30) as answer:
            return answer.read()
    except urllib.error.HTTPError as error:
        raise Refused("HTTP %d: %s" % (error.code, error.read(1000).decode(errors="replace"))) from error
