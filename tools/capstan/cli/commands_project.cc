#include <memory>

#include "CLI/CLI.hpp"
#include "tools/capstan/cli/commands.h"
#include "tools/capstan/cli/project_commands.h"

namespace capstan::cli {
namespace {

void AddRoleCommands(CLI::App& app, Act* act) {
  CLI::App* role = app.add_subcommand("role", "Give and take roles");
  role->require_subcommand(1);
  auto bind_options = std::make_shared<BindRoleOptions>();
  auto everywhere = std::make_shared<bool>(false);
  auto name = std::make_shared<std::string>();

  CLI::App* bind = role->add_subcommand("bind", "Give a person a role in the project");
  bind->add_option("member", bind_options->member, "uid or user name on this machine")
      ->type_name("MEMBER")
      ->required();
  bind->add_option("role", bind_options->role, "admin, operator, researcher or viewer")
      ->type_name("ROLE")
      ->required();
  bind->add_flag("--everywhere", bind_options->everywhere, "in every project");
  bind->add_option("--id", bind_options->id, "id of the binding");
  bind->footer(
      "Examples:\n"
      "  capstan role bind 1001 researcher --project vision\n"
      "  capstan role bind 1001 operator --everywhere\n");
  bind->callback(
      [=] { *act = [=](Invocation& invocation) { return BindRole(*bind_options, invocation); }; });

  CLI::App* unbind = role->add_subcommand("unbind", "Take a role away");
  unbind->add_option("binding", *name, "id or whole name, as `role list` shows it")
      ->type_name("BINDING")
      ->required();
  unbind->add_flag("--everywhere", *everywhere, "a binding in every project");
  unbind->footer("Examples:\n  capstan role unbind researcher-person-1001 --project vision\n");
  unbind->callback([=] {
    *act = [=](Invocation& invocation) { return UnbindRole(*name, *everywhere, invocation); };
  });

  CLI::App* list = role->add_subcommand("list", "List who has which role");
  list->add_flag("--everywhere", *everywhere, "the bindings for every project");
  list->footer(
      "Examples:\n  capstan role list --project vision\n  capstan role list --everywhere\n");
  list->callback(
      [=] { *act = [=](Invocation& invocation) { return ListRoles(*everywhere, invocation); }; });

  CLI::App* get = role->add_subcommand("get", "Show one binding");
  get->alias("describe");
  get->add_option("binding", *name, "id or whole name, as `role list` shows it")
      ->type_name("BINDING")
      ->required();
  get->add_flag("--everywhere", *everywhere, "a binding in every project");
  get->footer("Examples:\n  capstan role get first-admin --everywhere\n");
  get->callback([=] {
    *act = [=](Invocation& invocation) { return GetRole(*name, *everywhere, invocation); };
  });
}

}  // namespace

void AddProjectCommands(CLI::App& app, Act* act) {
  CLI::App* project = app.add_subcommand("project", "Create and show Projects");
  project->require_subcommand(1);
  project->alias("projects");
  auto id = std::make_shared<std::string>();
  auto display_name = std::make_shared<std::string>();
  CLI::App* create = project->add_subcommand("create", "Create a Project");
  create->add_option("id", *id, "id of the Project")->required();
  create->add_option("--display-name", *display_name, "for people");
  create->footer("Examples:\n  capstan project create vision --display-name 'Computer vision'\n");
  create->callback([=] {
    *act = [=](Invocation& invocation) { return CreateProject(*id, *display_name, invocation); };
  });
  project->add_subcommand("list", "List Projects")
      ->footer("Examples:\n  capstan project list\n")
      ->callback([=] { *act = ListProjects; });
  CLI::App* get = project->add_subcommand("get", "Show one Project");
  get->alias("describe");
  get->add_option("name", *id, "id, or projects/{p}")->type_name("PROJECT")->required();
  get->footer("Examples:\n  capstan project get default\n");
  get->callback(
      [=] { *act = [=](Invocation& invocation) { return GetProject(*id, invocation); }; });

  AddRoleCommands(app, act);

  CLI::App* audit = app.add_subcommand("audit", "Look into the audit chain");
  audit->require_subcommand(1);
  auto options = std::make_shared<VerifyOptions>();
  CLI::App* verify = audit->add_subcommand("verify", "Check that nothing is missing or changed");
  CLI::Option* print =
      verify->add_flag("--print", options->print_records, "show credentials' records too");
  verify->add_option("--file", options->file, "a part's audit.chain instead of credentials' own")
      ->type_name("FILE")
      ->excludes(print);
  CLI::Option* heads_file =
      verify->add_option("--heads", options->heads, "signed heads of `audit heads --export`")
          ->type_name("FILE");
  verify->add_option("--trust-bundle", options->trust_bundle, "with --heads: roots in PEM")
      ->type_name("FILE")
      ->needs(heads_file);
  verify->footer(
      "Exits with 0 if the chain is whole and reaches what credentials has signed, else with 1.\n"
      "With --heads these are what was exported earlier and kept where nobody who can write the\n"
      "platform's store can: then nothing older can have been changed since. With --file, too,\n"
      "nothing is asked of the platform.\n"
      "Examples:\n"
      "  capstan audit verify\n"
      "  capstan audit verify --print\n"
      "  capstan audit verify --heads heads.bin --trust-bundle roots.pem\n"
      "  capstan audit verify --file ~/.capstan/scheduler/audit.chain\n"
      "  capstan audit verify --file audit.chain --heads heads.bin --trust-bundle roots.pem\n");
  verify->callback([=] {
    *act = [=](Invocation& invocation) {
      return options->file.empty() ? VerifyAudit(*options, invocation)
                                   : VerifyAuditFile(*options, invocation);
    };
  });

  auto export_path = std::make_shared<std::string>();
  CLI::App* heads = audit->add_subcommand("heads", "Show how far every part's chain is signed");
  heads->add_option("--export", *export_path, "write the signed heads there, for audit verify")
      ->type_name("FILE");
  heads->footer(
      "Examples:\n"
      "  capstan audit heads -o wide\n"
      "  capstan audit heads --export heads.bin && capstan access trust-bundle >roots.pem\n");
  heads->callback([=] {
    *act = [=](Invocation& invocation) { return ShowAuditHeads(*export_path, invocation); };
  });

  auto list_options = std::make_shared<ListAuditOptions>();
  CLI::App* list = audit->add_subcommand("list", "List records, the newest by default");
  list->add_option("--from", list_options->from, "first record, by its number")
      ->type_name("NUMBER")
      ->check(CLI::NonNegativeNumber);
  list->add_option("--limit", list_options->limit, "at most this many; default 100")
      ->type_name("NUMBER")
      ->check(CLI::Range(1, 100'000));
  list->footer(
      "Examples:\n"
      "  capstan audit list --limit 20 -o wide\n"
      "  capstan audit list -o jsonpath='{range .items[?(@.outcome_code>0)]}{.principal} {.act}"
      "{\"\\n\"}{end}'\n");
  list->callback(
      [=] { *act = [=](Invocation& invocation) { return ListAudit(*list_options, invocation); }; });
  audit->add_subcommand("head", "Show what the newest record must hash to")
      ->footer("Examples:\n  capstan audit head\n")
      ->callback([=] { *act = ShowAuditHead; });
}

}  // namespace capstan::cli
