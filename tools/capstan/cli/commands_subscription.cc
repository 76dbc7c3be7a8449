#include <cstdint>
#include <memory>
#include <string>

#include "CLI/CLI.hpp"
#include "tools/capstan/cli/commands.h"
#include "tools/capstan/cli/subscription_commands.h"

namespace capstan::cli {
namespace {

CLI::App* AddNamed(CLI::App& family, const std::string& verb, const std::string& what,
                   std::string* name) {
  CLI::App* command = family.add_subcommand(verb, what);
  command->add_option("subscription", *name, "id, or projects/{p}/subscriptions/{s}")
      ->type_name("SUBSCRIPTION")
      ->required();
  return command;
}

void AddCreate(CLI::App& family, Act* act) {
  auto options = std::make_shared<CreateSubscriptionOptions>();
  CLI::App* create = family.add_subcommand("create", "Create a subscription of a Stream");
  create->add_option("id", options->id, "id of the subscription")->required();
  create
      ->add_option("stream", options->stream,
                   "JOB (its log), JOB/events, JOB/metrics, JOB/usage, or the Stream's whole name; "
                   "need not exist yet")
      ->type_name("STREAM")
      ->required();
  create
      ->add_option("--from", options->from,
                   "where it begins: `oldest` (default), the oldest record kept, or `newest`, "
                   "with what comes from now on")
      ->type_name("PLACE")
      ->check(CLI::IsMember({"oldest", "newest"}));
  create->footer(
      "Needs the permission subscriptions.create.\n"
      "Examples:\n"
      "  capstan subscription create nightly digits/events\n"
      "  capstan subscription create to-disk digits --from newest\n");
  create->callback([=] {
    *act = [=](Invocation& invocation) { return CreateSubscription(*options, invocation); };
  });
}

void AddRead(CLI::App& family, Act* act) {
  auto options = std::make_shared<ReadSubscriptionOptions>();
  CLI::App* read = AddNamed(family, "read", "Show what is behind the cursor, and acknowledge it",
                            &options->subscription);
  read->add_flag("--follow,-f", options->follow, "go on with what comes, until Ctrl-C");
  read->add_flag("--no-commit", options->no_commit, "leave the cursor where it is");
  read->footer(
      "What was printed and not acknowledged, since the command ended in between, comes again.\n"
      "A new reader takes over from one that reads already. Where retention has dropped what\n"
      "comes next, the error says from where on there is something.\n"
      "Examples:\n"
      "  capstan subscription read nightly --no-commit\n"
      "  capstan subscription read nightly -o json\n"
      "  capstan subscription read to-disk --follow >>digits.log\n");
  read->callback([=] {
    *act = [=](Invocation& invocation) { return ReadSubscription(*options, invocation); };
  });
}

void AddSeek(CLI::App& family, Act* act) {
  auto options = std::make_shared<SeekSubscriptionOptions>();
  CLI::App* seek = AddNamed(family, "seek", "Move the cursor, forth or back; ends its reader",
                            &options->subscription);
  CLI::Option_group* place = seek->add_option_group("place");
  place->add_option("--to", options->to, "offset of the record to be read next")
      ->type_name("OFFSET")
      ->check(CLI::Range(int64_t{1}, int64_t{1} << 62));
  place->add_flag("--oldest", options->oldest, "the oldest record that is kept");
  place->add_flag("--newest", options->newest, "only what comes from now on");
  place->require_option(1);
  seek->footer(
      "Needs the permission subscriptions.create.\n"
      "Examples:\n"
      "  capstan subscription seek nightly --to 2\n"
      "  capstan subscription seek nightly --oldest\n");
  seek->callback([=] {
    *act = [=](Invocation& invocation) { return SeekSubscription(*options, invocation); };
  });
}

}  // namespace

void AddSubscriptionCommands(CLI::App& app, Act* act) {
  CLI::App* family =
      app.add_subcommand("subscription", "Read Streams, and remember how far, across restarts");
  family->require_subcommand(1);
  family->alias("subscriptions");
  AddCreate(*family, act);
  family->add_subcommand("list", "List subscriptions, with how far each is behind")
      ->footer(
          "Examples:\n  capstan subscription list\n  capstan subscription list --sort-by "
          ".lag_records\n")
      ->callback([=] { *act = ListSubscriptions; });

  auto name = std::make_shared<std::string>();
  CLI::App* get = AddNamed(*family, "get", "Show one subscription", name.get());
  get->alias("describe");
  get->footer("Examples:\n  capstan subscription get nightly\n");
  get->callback(
      [=] { *act = [=](Invocation& invocation) { return GetSubscription(*name, invocation); }; });

  AddRead(*family, act);

  auto offset = std::make_shared<int64_t>(0);
  CLI::App* commit =
      AddNamed(*family, "commit", "Acknowledge everything up to an offset, for `read --no-commit`",
               name.get());
  commit->add_option("offset", *offset, "of the last record that was dealt with")
      ->type_name("OFFSET")
      ->check(CLI::Range(int64_t{1}, int64_t{1} << 62))
      ->required();
  commit->footer(
      "An offset behind the cursor changes nothing.\n"
      "Examples:\n  capstan subscription commit nightly 1\n");
  commit->callback([=] {
    *act = [=](Invocation& invocation) { return CommitSubscription(*name, *offset, invocation); };
  });

  AddSeek(*family, act);

  CLI::App* remove =
      AddNamed(*family, "delete", "Forget a subscription with its cursor", name.get());
  remove->footer(
      "Needs the permission subscriptions.create.\n"
      "Examples:\n  capstan subscription delete nightly\n");
  remove->callback([=] {
    *act = [=](Invocation& invocation) { return DeleteSubscription(*name, invocation); };
  });
}

}  // namespace capstan::cli
