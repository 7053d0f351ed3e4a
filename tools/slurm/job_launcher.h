#pragma once

#include <cstddef>
#include <optional>
#include <string>

#include "tools/slurm/srun_words.h"

namespace lockstep {

/// A program that starts the ranks of one host, and the names of its flags, with hyphens.
struct LauncherKind {
  const char* name;          ///< "lockstep run"
  const char* nodes_flag;    ///< null: it takes no node's place by flags
  const char* rank_flag;     ///< of the node
  const char* address_flag;  ///< of node 0
  const char* port_flag;     ///< of node 0
  bool is_lockstep;          ///< passes every warning on to its ranks
};

/// A launcher among the words of a command.
struct JobLauncher {
  const LauncherKind* kind = nullptr;
  std::size_t begin = 0;  ///< index of its first word
  std::size_t end = 0;    ///< index of the word after those that name it
};

/// The launcher that begins with word `at`, such as "torchrun" or "python -m torch.distributed.run".
std::optional<JobLauncher> launcher_at(const Words& words, std::size_t at);
/// The launcher that a command starts, directly or by a program such as numactl or singularity.
std::optional<JobLauncher> launcher_of(const Words& words);

/// The value of a flag, written with hyphens or underscores, as "--flag value" or "--flag=value"; empty if it has none,
/// nothing if it is not among the words.
std::optional<std::string> flag_value(const Words& words, const std::string& flag);

/// Whether the launcher's words leave its node's place to the order in which hosts arrive.
bool places_by_arrival(const Words& words);

}  // namespace lockstep
