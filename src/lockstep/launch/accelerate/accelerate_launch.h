#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "lockstep/launch/flags.h"

namespace CLI {
class App;
}

namespace lockstep {

/// One value of `lockstep launch`, and who gave it.
struct LaunchSetting {
  std::string name;  ///< as in Accelerate's file: num_processes
  std::string value;
  std::string origin;  ///< "flag", "environment (NAME)", "file", "default", or how it was found
};

/// What was typed after `lockstep launch`: accelerate's flags, each with its text where it was given.
struct AccelerateLaunchFlags {
  std::string config_file;
  std::map<std::string, std::string> given;  ///< by name: "num_processes"; switches have "true"
  bool show_config = false;
  bool quiet = false;
  bool module = false;
  bool no_python = false;
  std::vector<std::string> command;
};

/// Declares the flags on `app`; what follows the first word that is no flag is the program with its arguments.
void add_accelerate_launch_flags(CLI::App& app, AccelerateLaunchFlags& flags);

/// A launch, resolved: explicit flag > environment > file > automatic.
struct AccelerateLaunch {
  std::string config_file;                         ///< that was read; empty if there is none
  std::vector<LaunchSetting> settings;             ///< all of them, in a fixed order
  LaunchFlags flags;                               ///< for make_plan
  std::map<std::string, std::string> environment;  ///< that the ranks are to have beside their own

  const LaunchSetting& setting(const std::string& name) const;
};

/// @throws UsageError, Error  that names the value, who gave it, and what it may be
AccelerateLaunch resolve_accelerate_launch(const AccelerateLaunchFlags& flags);

}  // namespace lockstep
