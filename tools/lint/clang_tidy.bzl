"""clang-tidy over every first-party .cc file, as an aspect.

bazel build --config=tidy //...

As actions of the build the runs have exactly the compiler's flags, use all cores, and are taken from
the disk cache as long as neither the file nor a header that it may include has changed.
"""

_TIDY = "/usr/bin/clang-tidy-19"
_RULES = ["cc_library", "cc_binary", "cc_test"]

def _clang_tidy_impl(target, ctx):
    if ctx.rule.kind not in _RULES or target.label.workspace_name:
        return []
    sources = [file for file in ctx.rule.files.srcs if file.is_source and file.extension == "cc"]
    if not sources:
        return []
    own_headers = [
        file
        for file in ctx.rule.files.srcs + getattr(ctx.rule.files, "hdrs", [])
        if file.extension == "h"
    ]
    contexts = [dep[CcInfo].compilation_context for dep in ctx.rule.attr.deps if CcInfo in dep]
    headers = depset(own_headers, transitive = [context.headers for context in contexts])
    defines = depset(transitive = [context.defines for context in contexts]).to_list()
    reports = []
    for source in sources:
        report = ctx.actions.declare_file(
            "%s_tidy/%s.clang_tidy" % (ctx.label.name, source.basename),
        )
        args = ctx.actions.args()
        args.add(report)
        args.add(_TIDY)
        args.add("--quiet")
        args.add("--config-file=" + ctx.file._config.path)
        if source.basename.endswith("_test.cc"):
            # Tests are for reading; a copy in them costs nothing that matters.
            args.add("--checks=-performance-*")
        args.add(source)
        args.add("--")
        args.add("-xc++")
        args.add("-std=c++20")
        args.add("-iquote")
        args.add(".")
        args.add("-iquote")
        args.add(ctx.bin_dir.path)

        # The compilers' own warnings come from the builds.
        args.add("-w")
        args.add_all(defines + ctx.rule.attr.local_defines + ctx.rule.attr.defines, before_each = "-D")
        ctx.actions.run_shell(
            # clang-tidy writes how many warnings it suppressed even when there is nothing to say.
            command = """
report="$1"; shift
if ! "$@" >"$report" 2>"$report.log"; then
  cat "$report" >&2
  [[ -s "$report" ]] || cat "$report.log" >&2
  exit 1
fi
rm -f "$report.log"
""",
            arguments = [args],
            inputs = depset([source, ctx.file._config], transitive = [headers]),
            outputs = [report],
            mnemonic = "ClangTidy",
            progress_message = "Reading %s" % source.short_path,
        )
        reports.append(report)
    return [OutputGroupInfo(clang_tidy = depset(reports))]

clang_tidy = aspect(
    implementation = _clang_tidy_impl,
    attrs = {
        "_config": attr.label(default = "//:.clang-tidy", allow_single_file = True),
    },
)
