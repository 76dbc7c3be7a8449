"""Verifies a token as a cloud does: from its issuer's URL alone, by PyJWT and Python's TLS.

usage: verify_token.py ISSUER PORT BUNDLE AUDIENCE TOKEN

The issuer's host is looked for at PORT of this machine, and must show a certificate for its name by
the roots in BUNDLE. Prints the token's subject, the Job in its claims, and its algorithm.
"""

import http.client
import json
import socket
import ssl
import sys
import urllib.parse

import jwt


def get(url, port, context):
    parts = urllib.parse.urlsplit(url)
    connection = http.client.HTTPSConnection(parts.hostname, context=context, timeout=20)
    # The name is not in any DNS.
    connection.sock = context.wrap_socket(socket.create_connection(("127.0.0.1", port), 20),
                                          server_hostname=parts.hostname)
    connection.request("GET", parts.path)
    answer = connection.getresponse()
    body = answer.read()
    assert answer.status == 200, (url, answer.status, body)
    assert answer.getheader("Cache-Control", "").startswith("public, max-age=")
    return json.loads(body)


def main(issuer, port, bundle, audience, token):
    context = ssl.create_default_context(cafile=bundle)
    document = get(issuer + "/.well-known/openid-configuration", int(port), context)
    assert document["issuer"] == issuer
    header = jwt.get_unverified_header(token)
    algorithms = document["id_token_signing_alg_values_supported"]
    keys = get(document["jwks_uri"], int(port), context)["keys"]
    key, = [jwt.PyJWK(key) for key in keys if key["kid"] == header["kid"]]
    options = {"require": ["exp", "iat", "nbf", "sub", "aud", "iss", "jti"]}
    claims = jwt.decode(token, key.key, algorithms=algorithms, audience=audience, issuer=issuer,
                        options=options)
    for wrong in ({"audience": "another"}, {"issuer": issuer + ".evil"}):
        try:
            jwt.decode(token, key.key, algorithms=algorithms,
                       **dict({"audience": audience, "issuer": issuer}, **wrong))
        except jwt.InvalidTokenError:
            continue
        raise AssertionError("believed for " + str(wrong))
    try:
        jwt.decode(token[:-4] + "AAAA", key.key, algorithms=algorithms, audience=audience)
        raise AssertionError("a changed signature was believed")
    except jwt.InvalidSignatureError:
        pass
    print(claims["sub"])
    print(claims["capstan"]["job"])
    print(header["alg"])


if __name__ == "__main__":
    main(*sys.argv[1:])
