"""The rules that every BUILD file of this repository uses."""

load(
    "//tools/build_defs:proto.bzl",
    _capstan_grpc_library = "capstan_grpc_library",
    _capstan_proto_library = "capstan_proto_library",
)

capstan_proto_library = _capstan_proto_library
capstan_grpc_library = _capstan_grpc_library

_COPTS = [
    "-Wall",
    "-Wextra",
    "-Werror",
    "-Wnon-virtual-dtor",
    # Every gRPC callback handler hides the synchronous overload that it replaces.
    "-Wno-overloaded-virtual",
] + select({
    "//tools/build_defs:clang": [
        "-Wthread-safety",
        "-Wimplicit-fallthrough",
        # libstdc++ 12 uses parts of itself that it deprecates; gcc does not report system headers.
        "-Wno-deprecated-declarations",
    ],
    "//conditions:default": [],
})

# Part of the program itself: only its own symbols come before the shared library's.
_TSAN_SRCS = select({
    "//tools/build_defs:tsan": ["//third_party/abseil:tsan_mutex.cc"],
    "//conditions:default": [],
})

_TSAN_LINKOPTS = select({
    "//tools/build_defs:tsan": [
        "-rdynamic",
        "-ldl",
    ],
    "//conditions:default": [],
})

_SIZES = ["small", "medium", "large", "enormous"]

def _check_kwargs(rule, name, kwargs):
    for key in ["flaky", "linkstatic", "includes", "alwayslink", "nocopts"]:
        if key in kwargs:
            fail("%s(%s): `%s` is not accepted" % (rule, name, key))

def capstan_cc_library(name, hdrs = [], srcs = [], deps = [], copts = [], **kwargs):
    """One header, or a header and its .cc, with exactly the deps it names."""
    _check_kwargs("capstan_cc_library", name, kwargs)
    native.cc_library(
        name = name,
        srcs = srcs,
        hdrs = hdrs,
        copts = _COPTS + copts,
        deps = deps,
        **kwargs
    )

def capstan_cc_binary(name, srcs = [], deps = [], copts = [], **kwargs):
    """A program. Our own code is linked in statically, the system's libraries are shared."""
    _check_kwargs("capstan_cc_binary", name, kwargs)
    native.cc_binary(
        name = name,
        srcs = srcs,
        copts = _COPTS + copts,
        deps = deps,
        **kwargs
    )

def capstan_cc_test(
        name,
        size,
        srcs,
        deps = [],
        cpu = None,
        memory = None,
        main = True,
        copts = [],
        linkopts = [],
        tags = [],
        **kwargs):
    """A GoogleTest program.

    Args:
      name: ends in _test.
      size: small (no I/O beyond TEST_TMPDIR and loopback), medium, large.
      srcs: the test's sources.
      deps: what the sources include; //third_party/gtest:main comes by itself.
      cpu: cores that the test keeps busy, if more than one.
      memory: megabytes that it needs, if more than its size stands for.
      main: False if the sources bring their own main(); GoogleTest is linked all the same.
      copts: added to the house's own.
      linkopts: for libraries that have no target of their own; rare.
      tags: asan and tsan put the test under ./dev check's sanitizer runs.
      **kwargs: data, env, args, visibility, timeout.
    """
    _check_kwargs("capstan_cc_test", name, kwargs)
    if not name.endswith("_test"):
        fail("capstan_cc_test(%s): the name must end in _test" % name)
    if size not in _SIZES:
        fail("capstan_cc_test(%s): size must be one of %s" % (name, _SIZES))
    resource_tags = []
    for tag in tags:
        if tag.startswith("cpu:") or tag.startswith("resources:"):
            fail("capstan_cc_test(%s): say cpu = or memory =, not %s" % (name, tag))
    if cpu:
        resource_tags.append("cpu:%d" % cpu)
    if memory:
        resource_tags.append("resources:memory:%d" % memory)
    gtest = "//third_party/gtest:main" if main else "//third_party/gtest"
    native.cc_test(
        name = name,
        size = size,
        srcs = srcs + _TSAN_SRCS,
        copts = _COPTS + copts,
        linkopts = linkopts + _TSAN_LINKOPTS,
        # Shared objects of the libraries under test: a changed test relinks in a tenth of a second
        # and its binary stays small.
        linkstatic = False,
        tags = tags + resource_tags,
        deps = deps + [gtest],
        **kwargs
    )

def capstan_cc_benchmark(name, srcs, deps = [], copts = [], tags = [], data = [], **kwargs):
    """A Google Benchmark program, and `<name>_smoke_test`, which runs each benchmark briefly."""
    _check_kwargs("capstan_cc_benchmark", name, kwargs)
    if not name.endswith("_benchmark"):
        fail("capstan_cc_benchmark(%s): the name must end in _benchmark" % name)
    native.cc_binary(
        name = name,
        testonly = True,
        srcs = srcs,
        copts = _COPTS + copts,
        data = data,
        tags = tags + ["bench"],
        deps = deps + ["//third_party/benchmark"],
        **kwargs
    )
    native.sh_test(
        name = name + "_smoke_test",
        size = "small",
        srcs = ["//tools/build_defs:benchmark_smoke_test.sh"],
        args = ["$(rootpath :%s)" % name],
        data = [":" + name],
        tags = tags,
    )

def capstan_cc_fuzz_test(name, srcs, deps = [], corpus = [], copts = [], tags = [], size = "small"):
    """A fuzz target defining LLVMFuzzerTestOneInput.

    Built normally it is a plain test that runs every corpus file once. With --config=fuzz it is a
    libFuzzer program.

    Args:
      name: ends in _fuzz_test.
      srcs: the sources with LLVMFuzzerTestOneInput.
      deps: what they include.
      corpus: files, or filegroups of files; may be a glob.
      copts: added to the house's own.
      tags: as in capstan_cc_test.
      size: as in capstan_cc_test.
    """
    if not name.endswith("_fuzz_test"):
        fail("capstan_cc_fuzz_test(%s): the name must end in _fuzz_test" % name)
    if not corpus:
        fail("capstan_cc_fuzz_test(%s): needs a corpus, if only of one file" % name)
    native.filegroup(
        name = name + "_corpus",
        testonly = True,
        srcs = corpus,
        visibility = ["//visibility:private"],
    )
    native.cc_test(
        name = name,
        size = size,
        srcs = srcs,
        args = ["$(rootpaths :%s_corpus)" % name],
        copts = _COPTS + copts,
        data = [":%s_corpus" % name],
        linkopts = select({
            "//tools/build_defs:fuzzing": ["-fsanitize=fuzzer"],
            "//conditions:default": [],
        }),
        linkstatic = False,
        tags = tags + ["fuzz"],
        deps = deps + select({
            "//tools/build_defs:fuzzing": [],
            "//conditions:default": ["//tools/build_defs:fuzz_corpus_main"],
        }),
    )
