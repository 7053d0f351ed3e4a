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

/// One value of `lockstep launch`, and its origin.
struct LaunchSetting {
  std::string name;  ///< as in Accelerate's file: num_processes
  std::string value;
  std::string origin;  ///< "flag", "environment (NAME)", "file", "default", or how it was found
};

/// The arguments of `lockstep launch`: accelerate's flags, each with its text if it was given.
struct AccelerateLaunchFlags {
  std::string config_file;
  std::map<std::string, std::string> given;  ///< by name: "num_processes"; switches have "true"
  bool show_config = false;
  bool quiet = false;
  bool module = false;
  bool no_python = false;
  std::vector<std::string> command;
};

/// Declares the flags on `app`. The first word that is not a flag is the program; its arguments follow.
void add_accelerate_launch_flags(CLI::App& app, AccelerateLaunchFlags& flags);

/// A launch with all values resolved: explicit flag > environment > file > automatic.
struct AccelerateLaunch {
  std::string config_file;                         ///< the file that was read; empty if there is none
  std::vector<LaunchSetting> settings;             ///< all of them, in a fixed order
  LaunchFlags flags;                               ///< for make_plan
  std::map<std::string, std::string> environment;  ///< variables that the ranks get in addition to the launcher's own
  std::string warning;                             ///< of a file that does not fit this host; empty: none

  const LaunchSetting& setting(const std::string& name) const;
};

/// @throws UsageError, Error  that names the value, its origin, and the valid values
AccelerateLaunch resolve_accelerate_launch(const AccelerateLaunchFlags& flags);

}  // namespace lockstep
