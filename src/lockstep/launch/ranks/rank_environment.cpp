#include "lockstep/launch/ranks/rank_environment.h"

#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <unordered_set>

#include "lockstep/base/job_mark.h"
#include "lockstep/net/worlds/job_memory.h"

namespace lockstep {
namespace {

// NCCL's errors reach the program as exceptions; PyTorch before 2.2 reads the older name.
constexpr const char* kNcclErrorHandling[] = {"TORCH_NCCL_ASYNC_ERROR_HANDLING", "NCCL_ASYNC_ERROR_HANDLING"};

std::string name_of(const std::string& entry) { return entry.substr(0, entry.find('=')); }

}  // namespace

Variables rank_variables(const RankPlace& place) {
  const auto number = [](int value) { return std::to_string(value); };
  Variables variables{
      {"RANK", number(place.rank)},
      {"LOCAL_RANK", number(place.local_rank)},
      {"WORLD_SIZE", number(place.world_size)},
      {"LOCAL_WORLD_SIZE", number(place.local_world_size)},
      {"GROUP_RANK", number(place.node_rank)},
      {"GROUP_WORLD_SIZE", number(place.nodes)},
      {"ROLE_RANK", number(place.rank)},
      {"ROLE_WORLD_SIZE", number(place.world_size)},
      {"ROLE_NAME", place.role},
      {"MASTER_ADDR", place.master_addr},
      {"MASTER_PORT", number(place.master_port)},
      {"TORCHELASTIC_RESTART_COUNT", number(place.restart_count)},
      {"TORCHELASTIC_MAX_RESTARTS", number(place.max_restarts)},
      {"TORCHELASTIC_RUN_ID", place.run_id},
      // Lockstep's store is not PyTorch's: under env:// a Python rank 0 listens on MASTER_PORT itself.
      {"TORCHELASTIC_USE_AGENT_STORE", "False"},
      {"TORCHELASTIC_ERROR_FILE", place.error_file},
      {"LOCKSTEP_STORE", place.store},
      {"LOCKSTEP_GENERATION", std::to_string(place.generation)},
      {kJobMarkVariable, place.job_mark},
  };
  // A job inside of such a process has a store of its own.
  if (!place.store_file.empty() || std::getenv("LOCKSTEP_STORE_FILE") != nullptr)
    variables.emplace_back("LOCKSTEP_STORE_FILE", place.store_file);
  if (!place.survival_file.empty()) variables.emplace_back("LOCKSTEP_SURVIVAL_FILE", place.survival_file);
  if (place.memory >= 0 || std::getenv(kJobMemoryVariable) != nullptr)
    variables.emplace_back(kJobMemoryVariable, place.memory >= 0 ? number(place.memory) : "");
  // A job inside of such a process has ranks of its own.
  if (place.member >= 0 || std::getenv("LOCKSTEP_MEMBER") != nullptr)
    variables.emplace_back("LOCKSTEP_MEMBER", place.member >= 0 ? number(place.member) : "");
  if (!place.secret.empty()) variables.emplace_back("LOCKSTEP_SECRET", place.secret);
  if (!place.collective_timeout_s.empty()) variables.emplace_back("LOCKSTEP_TIMEOUT_S", place.collective_timeout_s);
  if (!place.trace_file.empty()) variables.emplace_back("LOCKSTEP_TRACE", place.trace_file);
  if (!place.trace_steps.empty()) variables.emplace_back("LOCKSTEP_TRACE_STEPS", place.trace_steps);
  for (const char* name : kNcclErrorHandling) {
    if (std::getenv(name) == nullptr) variables.emplace_back(name, "1");
  }
  return variables;
}

std::vector<std::string> merged_environment(const std::vector<std::string>& base, const Variables& variables) {
  std::unordered_set<std::string> replaced;
  for (const auto& variable : variables) replaced.insert(variable.first);
  std::vector<std::string> merged;
  for (const std::string& entry : base) {
    if (replaced.count(name_of(entry)) == 0) merged.push_back(entry);
  }
  for (const auto& [name, value] : variables) merged.push_back(name + "=" + value);
  return merged;
}

std::vector<std::string> own_environment() {
  std::vector<std::string> entries;
  for (char** entry = environ; *entry != nullptr; ++entry) entries.emplace_back(*entry);
  return entries;
}

std::vector<std::string> with_local_rank(std::vector<std::string> command, int local_rank) {
  const std::string macro = "${local_rank}";
  const std::string value = std::to_string(local_rank);
  for (std::string& word : command) {
    for (std::size_t at = word.find(macro); at != std::string::npos; at = word.find(macro, at + value.size())) {
      word.replace(at, macro.size(), value);
    }
  }
  return command;
}

}  // namespace lockstep
