"""Trains a small neural network on handwritten digits, data-parallel over a gang of Tasks.

Every rank computes the gradient on its share of each batch; the gang averages them, so that all ranks take
the same step and end with the same parameters, bit for bit. Whatever is random is drawn from the step's
number, so that a gang that resumes from a checkpoint ends where an undisturbed one would have.

Settings, from the environment: DIGITS_STEPS, DIGITS_CHECKPOINT_EVERY, DIGITS_BATCH, and DIGITS_EXCHANGE=0,
which leaves the averaging out (each rank then learns alone; only for comparison).
"""

import glob
import hashlib
import json
import os
import shutil
import time

import numpy as np

import gang as gang_lib
import task_api

HIDDEN = 64
CLASSES = 10
LEARNING_RATE = 0.04
MOMENTUM = 0.9
WEIGHT_DECAY = 1e-4
SEED = 20261121
SHAPES = (("w1", (64, HIDDEN)), ("b1", (HIDDEN,)), ("w2", (HIDDEN, CLASSES)), ("b2", (CLASSES,)))
SIZE = sum(int(np.prod(shape)) for _, shape in SHAPES)
REPORT_EVERY = 100


def setting(name, default):
    return int(os.environ.get("DIGITS_" + name, default))


def load(folder):
    """All parts of the Dataset, in the order of their names."""

    def parts(name):
        paths = sorted(glob.glob(os.path.join(folder, f"{name}-*.npy")))
        if not paths:
            raise SystemExit(f"{folder} has no {name}-*.npy")
        return np.concatenate([np.load(path, allow_pickle=False) for path in paths])

    images, labels = parts("images"), parts("labels")
    if len(images) != len(labels):
        raise SystemExit(f"{folder}: {len(images)} images, {len(labels)} labels")
    return images.astype(np.float64) / 16.0, labels


def named(flat):
    """Views of the flat vector under the parameters' names."""
    views, offset = {}, 0
    for name, shape in SHAPES:
        size = int(np.prod(shape))
        views[name] = flat[offset : offset + size].reshape(shape)
        offset += size
    return views


def first_parameters():
    random = np.random.default_rng(SEED)
    flat = np.zeros(SIZE)
    views = named(flat)
    views["w1"][:] = random.normal(0, np.sqrt(2 / 64), views["w1"].shape)
    views["w2"][:] = random.normal(0, np.sqrt(2 / HIDDEN), views["w2"].shape)
    return flat


def forward(views, images):
    hidden = np.maximum(images @ views["w1"] + views["b1"], 0)
    return hidden, hidden @ views["w2"] + views["b2"]


def gradient(views, images, labels, out):
    """Writes the gradient of the mean loss into `out`, flat; returns the loss."""
    hidden, scores = forward(views, images)
    scores -= scores.max(axis=1, keepdims=True)
    odds = np.exp(scores)
    odds /= odds.sum(axis=1, keepdims=True)
    rows = np.arange(len(labels))
    loss = -np.log(odds[rows, labels] + 1e-12).mean()
    odds[rows, labels] -= 1
    odds /= len(labels)
    into = named(out)
    into["w2"][:] = hidden.T @ odds
    into["b2"][:] = odds.sum(axis=0)
    back = (odds @ views["w2"].T) * (hidden > 0)
    into["w1"][:] = images.T @ back
    into["b1"][:] = back.sum(axis=0)
    return loss


def share_of_batch(step, count, batch, rank, size):
    """The rank's rows of the batch at `step`: each epoch has an order of its own, the same everywhere."""
    per_epoch = count // batch
    epoch, position = divmod(step - 1, per_epoch)
    order = np.random.default_rng([SEED, epoch]).permutation(count)
    return order[position * batch : (position + 1) * batch][rank::size]


def restore(folder, parameters, velocity):
    """Takes up the newest committed checkpoint; returns its step."""
    with np.load(os.path.join(folder, "state.npz"), allow_pickle=False) as state:
        parameters[:] = state["parameters"]
        velocity[:] = state["velocity"]
        return int(state["step"])


def save_checkpoint(output, step, parameters, velocity):
    name = f"checkpoints/step-{step:06}"
    folder = os.path.join(output, name)
    os.makedirs(folder, exist_ok=True)
    np.savez(os.path.join(folder, "state.npz"), parameters=parameters, velocity=velocity, step=step)
    committed = task_api.commit_checkpoint(name, step)
    # What was committed has been taken out of the folder; what could not be must not end as a result.
    if "CAPSTAN_SOCKET" in os.environ:
        shutil.rmtree(os.path.join(output, "checkpoints"), ignore_errors=True)
    return committed


def write_results(output, gang, step, parameters):
    digest = hashlib.sha256(parameters.tobytes()).hexdigest()
    result = {"rank": gang.rank, "generation": gang.generation, "step": step, "sha256": digest}
    with open(os.path.join(output, "parameters.json"), "w", encoding="utf-8") as file:
        json.dump(result, file)
        file.write("\n")
    if gang.rank == 0:
        np.savez(os.path.join(output, "model.npz"), **named(parameters))
    print(f"done at step {step}: parameters sha256:{digest}", flush=True)


def main():
    output = os.environ["CAPSTAN_OUTPUT_DIR"]
    steps = setting("STEPS", 6000)
    every = setting("CHECKPOINT_EVERY", 500)
    batch = setting("BATCH", 128)
    exchange = setting("EXCHANGE", 1) != 0

    images, labels = load(os.environ["CAPSTAN_DATASET_DIGITS"])
    parameters, velocity, slope = first_parameters(), np.zeros(SIZE), np.zeros(SIZE + 1)
    start = 0
    if "CAPSTAN_RESUME_DIR" in os.environ:
        start = restore(os.environ["CAPSTAN_RESUME_DIR"], parameters, velocity)
    gang = gang_lib.Gang()
    print(
        f"rank {gang.rank} of {gang.size}, generation {gang.generation}: {len(images)} images, "
        f"steps {start + 1} to {steps}",
        flush=True,
    )

    views = named(parameters)
    began = time.monotonic()
    for step in range(start + 1, steps + 1):
        rows = share_of_batch(step, len(images), batch, gang.rank, gang.size)
        # The loss goes along as the last number.
        slope[SIZE] = gradient(views, images[rows], labels[rows], slope[:SIZE])
        if exchange:
            gang.average(slope)
        velocity *= MOMENTUM
        velocity -= LEARNING_RATE * (slope[:SIZE] + WEIGHT_DECAY * parameters)
        parameters += velocity
        if gang.rank == 0 and (step % REPORT_EVERY == 0 or step == steps):
            _, scores = forward(views, images)
            accuracy = (scores.argmax(axis=1) == labels).mean()
            task_api.write_metrics(step, loss=slope[SIZE], train_accuracy=accuracy)
            rate = (step - start) / (time.monotonic() - began)
            print(
                f"step {step}/{steps}  loss {slope[SIZE]:.4f}  train accuracy {accuracy:.2%}  "
                f"{rate:.0f} steps/s",
                flush=True,
            )
        if gang.rank == 0 and step % every == 0 and step < steps:
            if save_checkpoint(output, step, parameters, velocity):
                print(f"checkpoint at step {step}", flush=True)
    write_results(output, gang, steps, parameters)


if __name__ == "__main__":
    main()
