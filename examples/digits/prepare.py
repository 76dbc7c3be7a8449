"""Puts the handwritten digits into a bucket folder: the training images only, as several objects.

    /usr/bin/python3 prepare.py <bucket folder>

The images are those that Debian's python3-sklearn carries (1,797 of 8 x 8 pixels). Every fifth one is held
out: the job never sees it, and evaluate.py measures with it. split.json fixes the digest of both halves.
"""

import argparse
import json
import os
import sys

# This folder is uploaded as the job's Bundle: nothing else should come to lie in it.
sys.dont_write_bytecode = True

import split  # noqa: E402

PARTS = 8


def main():
    parser = argparse.ArgumentParser(description="Writes the training images into a bucket folder.")
    parser.add_argument("bucket", help="folder to write the objects to; made if absent")
    arguments = parser.parse_args()

    images, labels = split.training()
    split.check("train", images, labels)
    os.makedirs(arguments.bucket, exist_ok=True)
    count = 0
    for part in range(PARTS):
        for name, array in (("images", images), ("labels", labels)):
            rows = array[part * len(array) // PARTS : (part + 1) * len(array) // PARTS]
            split.save(os.path.join(arguments.bucket, f"{name}-{part:02}.npy"), rows)
            count += 1
    print(json.dumps({"objects": count, "images": len(images), "bucket": arguments.bucket}))


if __name__ == "__main__":
    main()
