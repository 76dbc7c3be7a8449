#include <memory>
#include <string>

#include "CLI/CLI.hpp"
#include "libs/resource/quantity.h"
#include "libs/status/error.h"
#include "tools/capstan/cli/access_commands.h"
#include "tools/capstan/cli/commands.h"

namespace capstan::cli {
namespace {

void AddCanI(CLI::App& access, Act* act) {
  auto verb = std::make_shared<std::string>();
  auto resource = std::make_shared<std::string>();
  auto list = std::make_shared<bool>(false);
  CLI::App* can_i = access.add_subcommand("can-i", "Say whether you may do something");
  can_i->add_option("verb", *verb, "e.g. create")->type_name("VERB");
  can_i->add_option("resource", *resource, "e.g. jobs, or nodes")->type_name("RESOURCE");
  can_i->add_flag("--list,-l", *list, "show everything that you may do");
  can_i->footer(
      "Exits with 0 if you may, else with 1.\n"
      "Examples:\n"
      "  capstan access can-i create jobs\n"
      "  capstan access can-i cordon nodes\n"
      "  capstan access can-i --list --project vision\n");
  can_i->callback([=] {
    *act = [=](Invocation& invocation) {
      if (*list) return ListWhatICan(invocation);
      if (resource->empty()) {
        return status::Error(
            absl::StatusCode::kInvalidArgument, "NOTHING_ASKED",
            "expected a verb and a resource, as in `can-i create jobs`, or --list");
      }
      return CanI(*verb, *resource, invocation);
    };
  });
}

void AddDeny(CLI::App& access, Act* act) {
  auto options = std::make_shared<DenyOptions>();
  CLI::App* deny = access.add_subcommand(
      "deny", "Refuse an identity, all below a path, or one certificate, from now on");
  deny->add_option("identity", options->identity, "SPIFFE id, path, or path that ends in /")
      ->type_name("IDENTITY");
  deny->add_option("--serial", options->serial, "serial of a certificate, in lower-case hex")
      ->type_name("SERIAL");
  deny->add_option("--reason", options->reason, "why, for the audit log")->type_name("TEXT");
  deny->footer(
      "Streams that are open end within two seconds; what the identity runs is not stopped.\n"
      "Examples:\n"
      "  capstan access deny /person/1002 --reason 'left the company'\n"
      "  capstan access deny --serial 5f02 --reason 'key was copied'\n");
  deny->callback(
      [=] { *act = [=](Invocation& invocation) { return DenyIdentity(*options, invocation); }; });
}

void AddAllow(CLI::App& access, Act* act) {
  auto options = std::make_shared<DenyOptions>();
  CLI::App* allow = access.add_subcommand("allow", "Take an entry of the deny list back");
  allow->add_option("identity", options->identity, "as it was denied; see `access denials`")
      ->type_name("IDENTITY");
  allow->add_option("--serial", options->serial, "as it was denied")->type_name("SERIAL");
  allow->add_option("--reason", options->reason, "why, for the audit log")->type_name("TEXT");
  allow->footer("Examples:\n  capstan access allow /node/local/node-0 --reason 'disk wiped'\n");
  allow->callback(
      [=] { *act = [=](Invocation& invocation) { return AllowIdentity(*options, invocation); }; });
}

void AddJoinToken(CLI::App& access, Act* act) {
  auto path = std::make_shared<std::string>();
  auto ttl = std::make_shared<absl::Duration>();
  CLI::App* token = access.add_subcommand(
      "join-token", "Make a single-use token by which a Node, executor or service joins");
  token->add_option("path", *path, "/node/{c}/{n}, /executor/{c} or /svc/{s}")
      ->type_name("PATH")
      ->required();
  token->add_option("--ttl", "life of the token; default 15m, at most 24h")
      ->type_name("DURATION")
      ->check([ttl](const std::string& text) {
        const auto parsed = resource::ParseDuration(text);
        if (!parsed.ok()) return std::string(parsed.status().message());
        *ttl = *parsed;
        return std::string();
      });
  token->footer("Examples:\n  capstan access join-token /node/local/node-1 --ttl 5m\n");
  token->callback([=] {
    *act = [=](Invocation& invocation) { return CreateJoinToken(*path, *ttl, invocation); };
  });
}

}  // namespace

void AddAccessCommands(CLI::App& app, Act* act) {
  CLI::App* access = app.add_subcommand("access", "Who you are, what you may do, who is let in");
  access->require_subcommand(1);
  const auto who_am_i = [=] { *act = WhoAmI; };
  access
      ->add_subcommand("whoami", "Show who the platform takes you for, your roles, and until when")
      ->footer("Examples:\n  capstan access whoami\n  capstan access whoami -o name\n")
      ->callback(who_am_i);
  AddCanI(*access, act);
  AddDeny(*access, act);
  AddAllow(*access, act);
  access->add_subcommand("denials", "Show the deny list: what is denied, since when, by whom, why")
      ->footer("Examples:\n  capstan access denials\n  capstan access denials -o json\n")
      ->callback([=] { *act = ListDenials; });
  AddJoinToken(*access, act);
  access->add_subcommand("trust-bundle", "Show the roots of the trust domain, in PEM")
      ->footer("Examples:\n  capstan access trust-bundle >roots.pem\n")
      ->callback([=] { *act = ShowTrustBundle; });
  app.add_subcommand("whoami", "The same as `access whoami`")
      ->footer("Examples:\n  capstan whoami\n")
      ->callback(who_am_i);
}

}  // namespace capstan::cli
