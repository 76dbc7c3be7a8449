#include "tools/capstan/admin/commands_admin.h"

#include <memory>

#include "CLI/CLI.hpp"
#include "tools/capstan/admin/platform_backup.h"

namespace capstan::admin {

void AddAdminCommands(CLI::App& app, cli::Act* act) {
  CLI::App* admin = app.add_subcommand("admin", "Back up, restore and check a platform");
  admin->require_subcommand(1);

  auto backup_options = std::make_shared<BackupOptions>();
  CLI::App* backup = admin->add_subcommand(
      "backup",
      "Write the stores, archive, subscriptions, key and settings of the platform to a folder");
  backup->add_option("--out", backup_options->out, "the folder to make")
      ->type_name("DIR")
      ->required();
  backup->add_flag("--without-key", backup_options->without_key,
                   "leave out the key that opens the stored private keys");
  backup->footer(
      "The platform may run. With the key in it, the folder is worth the platform's authority:\n"
      "keep it as you keep the data folder.\n"
      "Examples:\n"
      "  capstan admin backup --out backup-$(date +%F)\n"
      "  capstan admin backup --out backup-without-key --without-key\n");
  backup->callback(
      [=] { *act = [=](cli::Invocation& now) { return BackupPlatform(*backup_options, now); }; });

  auto restore_options = std::make_shared<RestoreOptions>();
  CLI::App* restore = admin->add_subcommand("restore", "Make the platform what it was at a backup");
  restore->add_option("--from", restore_options->from, "what `backup` made")
      ->type_name("DIR")
      ->required();
  restore
      ->add_option("--config", restore_options->config,
                   "settings for the restored platform, instead of its own or the backup's")
      ->type_name("FILE");
  restore->add_flag("--force", restore_options->force, "replace stores that are not empty");
  restore->footer(
      "The platform must be stopped; Tasks may run: `dev up` adopts those that the backup knows\n"
      "and ends the others. What was done after the backup is forgotten: check the deny list.\n"
      "Streams are in no backup. The archive and subscriptions that lie beside them are kept; "
      "where\n"
      "there are none, the backup's are put back.\n"
      "Examples:\n"
      "  capstan dev down --keep-tasks && capstan admin restore --from DIR --force && "
      "capstan dev up\n"
      "  capstan --data-dir /new admin restore --from DIR\n"
      "  capstan --data-dir /new admin restore --from DIR --config etcd.yaml\n");
  restore->callback(
      [=] { *act = [=](cli::Invocation& now) { return RestorePlatform(*restore_options, now); }; });

  auto check_options = std::make_shared<CheckOptions>();
  CLI::App* check = admin->add_subcommand(
      "check", "Read every record of the platform's stores, or of a backup, and say what is wrong");
  check->add_option("--from", check_options->from, "a backup, instead of the platform")
      ->type_name("DIR");
  check->footer(
      "Exits with 0 if nothing is wrong, else with 1. The platform may run.\n"
      "Examples:\n"
      "  capstan admin check\n"
      "  capstan admin check --from backup-$(date +%F)\n");
  check->callback(
      [=] { *act = [=](cli::Invocation& now) { return CheckPlatform(*check_options, now); }; });
}

}  // namespace capstan::admin
