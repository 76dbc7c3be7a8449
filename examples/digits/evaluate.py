"""Measures a committed model on the images that the job never saw; prints one JSON object.

    /usr/bin/python3 evaluate.py <folder with model.npz> [--min_accuracy 0.95]

Exits with 1 if the accuracy is lower, and refuses a held-out half that is not the one in split.json.
"""

import argparse
import json
import os
import sys

import numpy as np

# This folder is uploaded as the job's Bundle: nothing else should come to lie in it.
sys.dont_write_bytecode = True

import split  # noqa: E402
import train  # noqa: E402


def main():
    parser = argparse.ArgumentParser(description="Measures a model on the held-out images.")
    parser.add_argument("folder", help="rank 0's committed output")
    parser.add_argument("--min_accuracy", type=float, default=0.95)
    arguments = parser.parse_args()

    images, labels = split.held_out()
    split.check("held_out", images, labels)
    with np.load(os.path.join(arguments.folder, "model.npz"), allow_pickle=False) as model:
        views = {name: model[name] for name, _ in train.SHAPES}
    _, scores = train.forward(views, images.astype(np.float64) / 16.0)
    correct = int((scores.argmax(axis=1) == labels).sum())
    accuracy = correct / len(labels)
    result = {
        "accuracy": round(accuracy, 4),
        "correct": correct,
        "held_out": len(labels),
        "held_out_sha256": split.digest(images, labels),
    }
    print(json.dumps(result))
    if accuracy < arguments.min_accuracy:
        print(f"accuracy {accuracy:.2%} is below {arguments.min_accuracy:.0%}", file=sys.stderr)
        sys.exit(1)


if __name__ == "__main__":
    main()
