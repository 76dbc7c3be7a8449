#include "services/node_agent/core/task_spans.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

namespace capstan::node_agent {

using TaskRecord = capstan::nodeagent::record::v1::Task;

namespace {

absl::string_view NameOf(TaskRecord::Stage stage) {
  switch (stage) {
    case TaskRecord::STAGE_PREPARING:
      return "task.prepare";
    case TaskRecord::STAGE_STARTING:
      return "task.start";
    case TaskRecord::STAGE_RUNNING:
      return "task.run";
    case TaskRecord::STAGE_ENDING:
      return "task.finish";
    default:
      return "";
  }
}

}  // namespace

absl::optional<trace::Context> StageTrace(const session::TaskId& id,
                                          const capstan::type::v1::DesiredTask& order,
                                          TaskRecord::Stage stage) {
  const absl::string_view name = NameOf(stage);
  const absl::optional<trace::Context> parent = trace::Parse(order.launch().traceparent());
  if (name.empty() || !parent.has_value()) return absl::nullopt;
  return trace::Derive(*parent, absl::StrCat(id.Path(), "/", name));
}

absl::optional<trace::Span> StageSpan(const session::TaskId& id,
                                      const capstan::type::v1::DesiredTask& order,
                                      TaskRecord::Stage stage) {
  const absl::optional<trace::Context> context = StageTrace(id, order, stage);
  if (!context.has_value() || !context->sampled) return absl::nullopt;
  trace::Span span;
  span.context = *context;
  span.parent = trace::Parse(order.launch().traceparent())->span;
  span.name = std::string(NameOf(stage));
  span.attributes = {{"capstan.job", order.launch().job()},
                     {"capstan.job_uid", id.job_uid},
                     {"capstan.generation", id.generation},
                     {"capstan.task", absl::StrCat(id.group, "-", id.index)},
                     {"capstan.node", order.node()}};
  return span;
}

}  // namespace capstan::node_agent
