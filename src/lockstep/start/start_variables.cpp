#include "lockstep/start/start_variables.h"

#include <algorithm>
#include <cstdlib>

#include "lockstep/base/heap.h"
#include "lockstep/start/kernel_choice.h"
#include "lockstep/start/process_threads.h"

namespace lockstep {
namespace {

bool is_set(const std::string& name) { return std::getenv(name.c_str()) != nullptr; }

std::string value_of(const std::string& name) {
  const char* const value = std::getenv(name.c_str());
  return value == nullptr ? "" : value;
}

// What LOCKSTEP_CHOSEN lists and still holds: "OMP_NUM_THREADS=2,OPENBLAS_CORETYPE=SkylakeX". None of the values has a
// comma.
StartVariables chosen_variables() {
  StartVariables variables;
  const std::string list = value_of(kChosenVariable);
  for (std::size_t start = 0; start < list.size();) {
    const std::size_t end = std::min(list.find(',', start), list.size());
    const std::string entry = list.substr(start, end - start);
    const std::size_t equals = entry.find('=');
    if (equals != std::string::npos) {
      const std::string name = entry.substr(0, equals);
      const std::string value = entry.substr(equals + 1);
      if (value_of(name) == value) variables.emplace_back(name, value);
    }
    start = end + 1;
  }
  return variables;
}

std::string text_of(const StartVariables& variables) {
  std::string text;
  for (const auto& [name, value] : variables) {
    if (!text.empty()) text += ',';
    text.append(name).append("=").append(value);
  }
  return text;
}

StartVariables choose(int threads, bool heap, bool (*stays)(const std::string& name)) {
  StartVariables variables;
  const std::string core_type = blas_core_type();
  if (!core_type.empty() && !stays("OPENBLAS_CORETYPE")) variables.emplace_back("OPENBLAS_CORETYPE", core_type);
  for (auto& variable : thread_variables(threads, stays)) variables.push_back(std::move(variable));
  if (heap) {
    for (auto& variable : heap_variables(stays)) variables.push_back(std::move(variable));
  }
  return variables;
}

}  // namespace

StartVariables variables_for_rank(int threads) {
  StartVariables variables = choose(threads, /*heap=*/true, is_users_choice);
  variables.emplace_back(kChosenVariable, text_of(variables));
  return variables;
}

StartVariables variables_for_this_process(bool heap) {
  StartVariables variables = choose(threads_of_process(), heap, is_set);
  if (variables.empty()) return variables;
  StartVariables all = chosen_variables();
  all.insert(all.end(), variables.begin(), variables.end());
  variables.emplace_back(kChosenVariable, text_of(all));
  return variables;
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
  for (const char* name : {"OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"}) {
    if (!is_set(name)) variables.emplace_back(name, std::to_string(threads));
  }
  return variables;
}

}  // namespace lockstep
