"""C++ code from .proto files, with the system's protoc and gRPC plugin.

Import paths and include paths both start at the repository root.
"""

CapstanProtoInfo = provider(
    doc = "The .proto files of a target.",
    fields = {
        "srcs": "list of File: the target's own .proto files",
        "transitive_srcs": "depset of File: own and imported .proto files",
    },
)

_PROTOC = "/usr/bin/protoc"
_GRPC_PLUGIN = "/usr/bin/grpc_cpp_plugin"

def _proto_codegen_impl(ctx):
    srcs = ctx.files.srcs
    transitive = depset(
        srcs,
        transitive = [dep[CapstanProtoInfo].transitive_srcs for dep in ctx.attr.deps],
    )
    suffix = ".grpc.pb" if ctx.attr.grpc else ".pb"
    headers = []
    sources = []
    for src in srcs:
        if src.owner.package != ctx.label.package:
            fail("%s: %s belongs to another package" % (ctx.label, src.short_path))
        stem = src.short_path[len(ctx.label.package) + 1:-len(".proto")]
        headers.append(ctx.actions.declare_file(stem + suffix + ".h"))
        sources.append(ctx.actions.declare_file(stem + suffix + ".cc"))

    args = ctx.actions.args()

    # A generated .proto lies under bin_dir; both roots give the same import path.
    args.add("-I.")
    args.add("-I" + ctx.bin_dir.path)
    args.add("-I/usr/include")
    if ctx.attr.grpc:
        args.add("--plugin=protoc-gen-grpc=" + _GRPC_PLUGIN)
        args.add("--grpc_out=" + ctx.bin_dir.path)
    else:
        args.add("--cpp_out=" + ctx.bin_dir.path)
    args.add_all(srcs)
    ctx.actions.run(
        executable = _PROTOC,
        arguments = [args],
        inputs = transitive,
        outputs = headers + sources,
        mnemonic = "ProtocGrpc" if ctx.attr.grpc else "ProtocCpp",
        progress_message = "Generating C++ from %s" % ctx.label,
    )

    return [
        DefaultInfo(files = depset(headers + sources)),
        OutputGroupInfo(headers = depset(headers), sources = depset(sources)),
        CapstanProtoInfo(srcs = srcs, transitive_srcs = transitive),
    ]

_proto_codegen = rule(
    implementation = _proto_codegen_impl,
    attrs = {
        "srcs": attr.label_list(allow_files = [".proto"], mandatory = True, allow_empty = False),
        "deps": attr.label_list(providers = [CapstanProtoInfo]),
        "grpc": attr.bool(),
    },
)

def _proto_descriptor_impl(ctx):
    info = ctx.attr.proto[CapstanProtoInfo]
    out = ctx.actions.declare_file(ctx.label.name + ".pb")
    args = ctx.actions.args()
    args.add("-I.")
    args.add("-I" + ctx.bin_dir.path)
    args.add("-I/usr/include")
    args.add("--include_imports")
    args.add("--include_source_info")
    args.add("--descriptor_set_out=" + out.path)
    args.add_all(info.srcs)
    ctx.actions.run(
        executable = _PROTOC,
        arguments = [args],
        inputs = info.transitive_srcs,
        outputs = [out],
        mnemonic = "ProtocDescriptor",
        progress_message = "Describing %s" % ctx.attr.proto.label,
    )
    return [DefaultInfo(files = depset([out]))]

_proto_descriptor = rule(
    implementation = _proto_descriptor_impl,
    attrs = {"proto": attr.label(providers = [CapstanProtoInfo], mandatory = True)},
)

# The public target is both: a C++ library for cc_* rules, and the .proto files for other protos.
def _proto_library_impl(ctx):
    return [
        DefaultInfo(files = ctx.attr.cc[DefaultInfo].files),
        ctx.attr.cc[CcInfo],
        ctx.attr.codegen[CapstanProtoInfo],
    ]

_proto_library = rule(
    implementation = _proto_library_impl,
    attrs = {
        "cc": attr.label(providers = [CcInfo], mandatory = True),
        "codegen": attr.label(providers = [CapstanProtoInfo], mandatory = True),
    },
)

def _define(name, srcs, deps, cc_deps, grpc, **kwargs):
    common = {key: kwargs[key] for key in ["testonly", "tags"] if key in kwargs}
    codegen = name + "_codegen"
    _proto_codegen(
        name = codegen,
        srcs = srcs,
        grpc = grpc,
        visibility = ["//visibility:private"],
        deps = deps,
        **common
    )
    native.filegroup(
        name = name + "_hdrs",
        srcs = [codegen],
        output_group = "headers",
        visibility = ["//visibility:private"],
        **common
    )
    native.filegroup(
        name = name + "_srcs",
        srcs = [codegen],
        output_group = "sources",
        visibility = ["//visibility:private"],
        **common
    )
    native.cc_library(
        name = name + "_cc",
        srcs = [name + "_srcs"],
        hdrs = [name + "_hdrs"],
        copts = ["-w"],
        # A file of services alone has no symbol that anyone names, yet its descriptor must be there.
        alwayslink = True,
        visibility = ["//visibility:private"],
        deps = deps + cc_deps,
        **common
    )
    _proto_library(
        name = name,
        cc = name + "_cc",
        codegen = codegen,
        **kwargs
    )

def capstan_proto_library(name, srcs, deps = [], **kwargs):
    """Messages only, as a C++ library, and `<name>_descriptor`, a descriptor set for lint.

    Args:
      name: the target for cc_* rules and for the deps of other protos.
      srcs: .proto files of this package.
      deps: capstan_proto_library targets of the files they import; google/protobuf needs none.
      **kwargs: visibility, testonly, tags.
    """
    _define(
        name = name,
        srcs = srcs,
        deps = deps,
        cc_deps = ["//third_party/protobuf"],
        grpc = False,
        **kwargs
    )
    _proto_descriptor(
        name = name + "_descriptor",
        proto = name,
        **{key: kwargs[key] for key in ["visibility", "testonly", "tags"] if key in kwargs}
    )

def capstan_grpc_library(name, srcs, deps, **kwargs):
    """Services only (.grpc.pb.h), over the messages of the same .proto files.

    Args:
      name: the target for cc_* rules.
      srcs: the .proto files that hold the services.
      deps: the capstan_proto_library of the same files, and of whatever those import directly.
      **kwargs: visibility, testonly, tags.
    """
    _define(
        name = name,
        srcs = srcs,
        deps = deps,
        cc_deps = ["//third_party/grpc"],
        grpc = True,
        **kwargs
    )
