#!/usr/bin/python3
"""Keeps messages readable over versions: what is on the wire and in stores only grows.

usage: contract.py --check | --write

proto/contract.txt lists each field, enum value and method of every message that leaves a process or is
stored, a line each. --check compares it with the .proto files, and with the list as it was committed
last: a line that is gone is a break, unless its number is reserved now, or proto/contract_breaks.txt
says why nobody can miss it. --write writes the list anew.

--check looks after what is stored and is no message, too (stored_formats.py, docs/stored_formats.md).
"""

import subprocess
import sys
import tempfile

import stored_formats

CONTRACT = "proto/contract.txt"
BREAKS = "proto/contract_breaks.txt"
# Beside proto/capstan: what is kept in stores, backups and files. Messages of others (proto/google, …)
# are not ours to change.
RECORDS = ("libs/store/backup.proto", "services/*.proto", "services/**/*.proto",
           "tools/capstan/admin/*.proto")
# An endless range ends here; google/protobuf/descriptor.proto.
MAX_NUMBER = 536870911


def lines_of(files):
    """The contract of FileDescriptorProtos."""
    from google.protobuf import descriptor_pb2 as pb

    labels = {pb.FieldDescriptorProto.LABEL_REPEATED: "repeated ",
              pb.FieldDescriptorProto.LABEL_REQUIRED: "required "}

    def type_of(field):
        if field.type_name:
            return field.type_name.lstrip(".")
        return pb.FieldDescriptorProto.Type.Name(field.type)[len("TYPE_"):].lower()

    def of_enum(prefix, enum):
        name = prefix + enum.name
        for value in enum.value:
            yield f"{name} {value.number}: {value.name}"
        for reserved in enum.reserved_range:
            yield f"{name} reserved {reserved.start} to {reserved.end}"

    def of_message(prefix, message):
        name = prefix + message.name
        for field in message.field:
            where = ""
            if field.HasField("oneof_index") and not field.proto3_optional:
                where = f" in {message.oneof_decl[field.oneof_index].name}"
            if field.proto3_optional:
                where = " optional"
            kind = labels.get(field.label, "") + type_of(field)
            yield f"{name} {field.number}: {kind} {field.name}{where}"
        for reserved in message.reserved_range:
            yield f"{name} reserved {reserved.start} to {min(reserved.end - 1, MAX_NUMBER)}"
        for nested in message.nested_type:
            yield from of_message(name + ".", nested)
        for enum in message.enum_type:
            yield from of_enum(name + ".", enum)

    for file in files:
        prefix = file.package + "."
        for message in file.message_type:
            yield from of_message(prefix, message)
        for enum in file.enum_type:
            yield from of_enum(prefix, enum)
        for service in file.service:
            for method in service.method:
                asked = ("stream " if method.client_streaming else "") + method.input_type.lstrip(".")
                given = ("stream " if method.server_streaming else "") + method.output_type.lstrip(".")
                yield f"{prefix}{service.name}/{method.name}: {asked} -> {given}"


def numbers_of(line):
    """Message or enum of a line, and the first and last number it speaks of; None of a method."""
    if " reserved " in line:
        name, _, numbers = line.partition(" reserved ")
        first, _, last = numbers.partition(" to ")
        return name, int(first), int(last)
    name, _, number = line.partition(": ")[0].rpartition(" ")
    return (name, int(number), int(number)) if number.isdigit() else None


def is_reserved(line, now):
    """Whether the numbers of a line that is gone can't be taken again."""
    gone = numbers_of(line)
    if gone is None:
        return False
    for other in now:
        if " reserved " not in other:
            continue
        name, first, last = numbers_of(other)
        if name == gone[0] and first <= gone[1] and gone[2] <= last:
            return True
    return False


def broken(before, now, excused):
    """Lines of `before` that `now` does not keep."""
    kept = set(now)
    return [line for line in before
            if line not in kept and line not in excused and not is_reserved(line, now)]


def read_lines(text):
    return [line for line in text.splitlines() if line and not line.startswith("#")]


def excuses(text):
    """The lines of BREAKS: what is gone, and, indented below it, why."""
    lines = text.splitlines()
    excused = set()
    for i, line in enumerate(lines):
        if not line or line[0] in " #":
            continue
        if i + 1 == len(lines) or not lines[i + 1].strip() or not lines[i + 1].startswith(" "):
            raise SystemExit(f"{BREAKS}: `{line}` has no reason on the line below it, indented")
        excused.add(line)
    return excused


def git(*arguments):
    return subprocess.run(("git",) + arguments, check=False, capture_output=True, text=True)


def contract():
    from google.protobuf import descriptor_pb2 as pb

    listed = git("ls-files", "--cached", "--others", "--exclude-standard", "--",
                 "proto/capstan/*.proto", *RECORDS).stdout
    sources = sorted({name for name in listed.splitlines() if "/testing" not in name})
    with tempfile.NamedTemporaryFile() as out:
        subprocess.run(["/usr/bin/protoc", "-I.", f"--descriptor_set_out={out.name}", *sources],
                       check=True)
        files = pb.FileDescriptorSet.FromString(out.read())
    return sorted(lines_of(files.file))


def main(arguments):
    if arguments not in (["--check"], ["--write"]):
        print(__doc__, file=sys.stderr)
        return 2
    now = contract()
    text = "\n".join(now) + "\n"
    if arguments == ["--write"]:
        with open(CONTRACT, "w", encoding="utf-8") as file:
            file.write(text)
        return 0
    status = 0
    with open(CONTRACT, encoding="utf-8") as file:
        if file.read() != text:
            print(f"{CONTRACT} is not what the .proto files say: tools/lint/contract.py --write")
            status = 1
    with open(BREAKS, encoding="utf-8") as file:
        excused = excuses(file.read())
    # What is not committed yet is compared with HEAD, what was committed last with what was before.
    # What a clone without history lacks is not compared.
    for base in ("HEAD", "HEAD~1"):
        before = git("show", f"{base}:{CONTRACT}")
        if before.returncode != 0:
            continue
        for line in broken(read_lines(before.stdout), now, excused):
            print(f"{line}\n    was there in {base}: keep it, or remove it and reserve its number; what "
                  f"nobody can miss goes to {BREAKS} with the reason")
            status = 1
    for line in stored_formats.check(excused):
        print(line)
        status = 1
    return status


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
