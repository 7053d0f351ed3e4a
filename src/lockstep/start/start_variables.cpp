#include "lockstep/start/start_variables.h"

#include <algorithm>
#include <cstdlib>
#include <iterator>

#include "lockstep/base/processor/heap.h"
#include "lockstep/base/processor/topology.h"
#include "lockstep/start/kernel_choice.h"
#include "lockstep/start/process_threads.h"

namespace lockstep {
namespace {

constexpr const char* kThreadVariables[] = {"OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"};

// Set before main, so not an object with a constructor.
bool amx_is_withheld_here = false;

bool is_set(const std::string& name) { return std::getenv(name.c_str()) != nullptr; }

std::string value_of(const std::string& name) {
  const char* const value = std::getenv(name.c_str());
  return value == nullptr ? "" : value;
}

// Entries of LOCKSTEP_CHOSEN that record for which ranks and host the threads were chosen.
constexpr const char* kForRanks = "for_ranks";
constexpr const char* kOnHost = "on_host";

// The host's name without commas, because a comma ends an entry.
std::string this_host() {
  std::string host = host_name();
  std::replace(host.begin(), host.end(), ',', '_');
  return host;
}

bool is_of_threads(const std::string& name) {
  return std::find(std::begin(kThreadVariables), std::end(kThreadVariables), name) != std::end(kThreadVariables);
}

// The entries of LOCKSTEP_CHOSEN: "OMP_NUM_THREADS=2,OPENBLAS_CORETYPE=SkylakeX,for_ranks=4,on_host=name". No value
// contains a comma.
StartVariables listed_entries() {
  StartVariables entries;
  const std::string list = value_of(kChosenVariable);
  for (std::size_t start = 0; start < list.size();) {
    const std::size_t end = std::min(list.find(',', start), list.size());
    const std::string entry = list.substr(start, end - start);
    const std::size_t equals = entry.find('=');
    if (equals != std::string::npos) entries.emplace_back(entry.substr(0, equals), entry.substr(equals + 1));
    start = end + 1;
  }
  return entries;
}

// The listed variables that still have their listed values.
StartVariables chosen_variables() {
  StartVariables variables;
  for (auto& entry : listed_entries()) {
    if (entry.first != kForRanks && entry.first != kOnHost && value_of(entry.first) == entry.second)
      variables.push_back(std::move(entry));
  }
  return variables;
}

// The listed value of `name`; empty if it is not listed.
std::string listed(const std::string& name) {
  for (const auto& [each, value] : listed_entries()) {
    if (each == name) return value;
  }
  return "";
}

// Whether `name` is a number of threads that was chosen for another kind of process, or another host.
bool was_for_another(const std::string& name) {
  if (!is_of_threads(name) || chosen_by(name) != "lockstep" || listed(kForRanks).empty()) return false;
  return listed(kForRanks) != std::to_string(ranks_on_host()) || listed(kOnHost) != this_host();
}

bool is_set_for_this_process(const std::string& name) { return is_set(name) && !was_for_another(name); }

// The list of `variables`, and for which ranks their threads are.
std::string text_of(StartVariables variables, int ranks) {
  const bool has_threads = std::any_of(variables.begin(), variables.end(),
                                       [](const auto& variable) { return is_of_threads(variable.first); });
  if (has_threads) {
    variables.emplace_back(kForRanks, std::to_string(ranks));
    variables.emplace_back(kOnHost, this_host());
  }
  std::string text;
  for (const auto& [name, value] : variables) {
    if (!text.empty()) text += ',';
    text.append(name).append("=").append(value);
  }
  return text;
}

// Variables that Lockstep chose before the user set OMP_NUM_THREADS follow it, as they would if they were not set.
void follow_the_user(StartVariables& variables) {
  if (!is_users_choice("OMP_NUM_THREADS")) return;
  const std::string threads = value_of("OMP_NUM_THREADS");
  for (const char* name : kThreadVariables) {
    if (chosen_by(name) != "lockstep") continue;
    variables.emplace_back(name, threads.substr(0, threads.find(',')));  // "4,2" is for nested regions
  }
}

StartVariables choose(int threads, bool heap, bool (*stays)(const std::string& name)) {
  StartVariables variables;
  const std::string core_type = blas_core_type();
  if (!core_type.empty() && !stays("OPENBLAS_CORETYPE")) variables.emplace_back("OPENBLAS_CORETYPE", core_type);
  for (auto& variable : onednn_variables(amx_of_processor(), stays)) variables.push_back(std::move(variable));
  for (auto& variable : thread_variables(threads, stays)) variables.push_back(std::move(variable));
  follow_the_user(variables);
  for (auto& variable : spin_variables(stays)) variables.push_back(std::move(variable));
  if (heap) {
    for (auto& variable : heap_variables(stays)) variables.push_back(std::move(variable));
  }
  return variables;
}

}  // namespace

StartVariables variables_for_rank(int threads, int ranks) {
  StartVariables variables = choose(threads, /*heap=*/true, is_users_choice);
  variables.emplace_back(kChosenVariable, text_of(variables, ranks));
  return variables;
}

StartVariables variables_for_this_process(bool heap) {
  const int inherited = inherited_threads();
  const int own = threads_of_process();
  StartVariables variables = choose(inherited > 0 ? std::min(own, inherited) : own, heap, is_set_for_this_process);
  if (variables.empty()) return variables;
  if (!onednn_variables(amx_of_processor(), is_set).empty()) amx_is_withheld_here = true;
  StartVariables all = variables;
  for (auto& before : chosen_variables()) {
    const auto is_it = [&](const auto& variable) { return variable.first == before.first; };
    if (std::none_of(variables.begin(), variables.end(), is_it)) all.push_back(std::move(before));
  }
  variables.emplace_back(kChosenVariable, text_of(all, ranks_on_host()));
  return variables;
}

int inherited_threads() {
  if (chosen_by("OMP_NUM_THREADS") != "lockstep") return 0;
  const int threads = std::atoi(value_of("OMP_NUM_THREADS").c_str());
  if (!was_for_another("OMP_NUM_THREADS")) return threads;
  return listed(kOnHost) == this_host() ? std::max(1, threads / ranks_on_host()) : 0;
}

bool is_users_choice(const std::string& name) { return chosen_by(name) == "user"; }

std::string chosen_by(const std::string& name) {
  if (!is_set(name)) return "";
  const std::vector<std::string> ours = chosen_names();
  return std::find(ours.begin(), ours.end(), name) != ours.end() ? "lockstep" : "user";
}

std::vector<std::string> chosen_names() {
  std::vector<std::string> names;
  for (const auto& variable : chosen_variables()) names.push_back(variable.first);
  return names;
}

StartVariables thread_variables(int threads, bool (*is_set)(const std::string& name)) {
  StartVariables variables;
  if (is_set("OMP_NUM_THREADS")) return variables;
  for (const char* name : kThreadVariables) {
    if (!is_set(name)) variables.emplace_back(name, std::to_string(threads));
  }
  return variables;
}

StartVariables spin_variables(bool (*is_set)(const std::string& name)) {
  StartVariables variables;
  if (is_set("OMP_WAIT_POLICY")) return variables;
  if (!is_set("GOMP_SPINCOUNT")) variables.emplace_back("GOMP_SPINCOUNT", "20000");
  if (!is_set("KMP_BLOCKTIME")) variables.emplace_back("KMP_BLOCKTIME", "1");
  return variables;
}

StartVariables onednn_variables(Amx amx, bool (*is_set)(const std::string& name)) {
  StartVariables variables;
  if (amx != Amx::Undescribed) return variables;
  for (const char* name : kOnednnVariables) {
    if (is_set(name)) return {};
    variables.emplace_back(name, "AVX512_CORE_BF16");
  }
  return variables;
}

bool is_first_to_withhold_amx() {
  return amx_is_withheld_here || !onednn_variables(amx_of_processor(), is_set).empty();
}

}  // namespace lockstep
