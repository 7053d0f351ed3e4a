#include "lockstep/net/start_line.h"

#include "lockstep/base/error.h"
#include "lockstep/base/files/atomic_file.h"
#include "lockstep/base/text/printable.h"
#include "lockstep/net/environment/slurm_environment.h"

namespace lockstep {
namespace {

constexpr std::size_t kLongestLine = 300;

std::string quoted(const std::string& word) {
  constexpr const char* kPlain = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_./:=,@%+-";
  if (!word.empty() && word.find_first_not_of(kPlain) == std::string::npos) return word;
  std::string text = "'";
  for (const char c : word) text += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return text + "'";
}

std::string own_words() {
  std::string words;
  try {
    words = read_file("/proc/self/cmdline");  // each ends with a zero byte
  } catch (const Error&) {
    return "";
  }
  std::string line;
  for (std::size_t at = 0; at < words.size() && line.size() <= kLongestLine;) {
    const std::size_t end = std::min(words.find('\0', at), words.size());
    line += " " + quoted(words.substr(at, end - at));
    at = end + 1;
  }
  return line;
}

}  // namespace

std::string start_line() {
  const std::string words = own_words();
  const bool fits = !words.empty() && words.size() <= kLongestLine && printable(words, kLongestLine) == words;
  const bool is_job_script = slurm_tasks_without_step().value_or(1) > 1;
  return (is_job_script ? "srun" : "lockstep run --nproc-per-node 2") + (fits ? words : " PROGRAM");
}

}  // namespace lockstep
