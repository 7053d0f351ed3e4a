#include "lockstep/train/accelerator/self_launch.h"

#include <unistd.h>

#include <filesystem>
#include <string>
#include <system_error>
#include <vector>

#include "lockstep/base/environment.h"
#include "lockstep/base/error.h"
#include "lockstep/base/files/accelerate_config_path.h"
#include "lockstep/base/files/atomic_file.h"

namespace lockstep {
namespace {

// The arguments with which this process was started.
std::vector<std::string> own_arguments() {
  const std::string words = read_file("/proc/self/cmdline");
  std::vector<std::string> arguments;
  for (std::size_t at = 0; at < words.size();) {
    arguments.emplace_back(words.c_str() + at);
    at += arguments.back().size() + 1;
  }
  return arguments;
}

// The name under which `file` was started, which may be a link to a program that is several; `file` if that name is not
// a path, or another file's.
std::string started_name(const std::vector<std::string>& arguments, const std::filesystem::path& file) {
  if (arguments.empty() || arguments.front().find('/') == std::string::npos) return file.string();
  std::error_code unknown;
  return std::filesystem::equivalent(arguments.front(), file, unknown) ? arguments.front() : file.string();
}

}  // namespace

void become_launcher_if_configured() {
  if (env_string("RANK") || env_string("WORLD_SIZE")) return;
  const std::string file = accelerate_config_path();
  if (file.empty() || !std::filesystem::exists(file)) return;

  std::error_code unknown;
  const std::filesystem::path program = std::filesystem::read_symlink("/proc/self/exe", unknown);
  const std::filesystem::path beside = program.parent_path() / "lockstep";
  const std::vector<std::string> own = own_arguments();
  std::vector<std::string> words{std::filesystem::exists(beside) ? beside.string() : "lockstep",
                                 "launch",
                                 "--quiet",
                                 "--config-file",
                                 file,
                                 "--no-python",
                                 started_name(own, program)};
  words.insert(words.end(), own.begin() + (own.empty() ? 0 : 1), own.end());
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  ::execvp(argv.front(), argv.data());
  throw Error("the configuration " + file +
                  " says how many processes to start, but the command `lockstep` was not found: " + errno_text(errno),
              program.string(), "put lockstep into PATH, start the program with `lockstep launch`, or remove the file");
}

}  // namespace lockstep
