#include "lockstep/launch/launcher_words.h"

#include <fmt/format.h>

#include <charconv>
#include <nlohmann/json.hpp>

#include "lockstep/base/error.h"
#include "lockstep/base/text/printable.h"
#include "lockstep/launch/launcher_name.h"

namespace lockstep {
namespace {

// The text is not from a launcher: without a secret, everyone who reaches the store may write to it.
[[noreturn]] void refuse_words(const std::string& key, const std::string& text) {
  throw Error(
      fmt::format("the key \"{}\" of the job's store holds what no launcher of this version wrote: \"{}\"", key,
                  printable(text)),
      at_launcher("rendezvous"),
      "give the job a secret, the same in LOCKSTEP_SECRET on every node: without one, other users of a host can "
      "reach its store; and run one version of Lockstep on all nodes");
}

}  // namespace

std::string text_of_outcome(const Outcome& outcome) {
  const nlohmann::json json{{"success", outcome.success}, {"final", outcome.is_final}, {"story", outcome.story}};
  return json.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);  // a program may have written any bytes
}

std::optional<std::string> story_of_loss(const std::string& text) {
  const std::string mark = kLostLauncherMark;
  if (text.compare(0, mark.size(), mark) != 0) return std::nullopt;
  return text.substr(mark.size());
}

Outcome outcome_in(const std::string& key, const std::string& text) {
  if (const auto story = story_of_loss(text)) return {false, true, false, *story};
  try {
    const auto json = nlohmann::json::parse(text);
    return {json.at("success").get<bool>(), json.at("final").get<bool>(), false, json.at("story").get<std::string>()};
  } catch (const nlohmann::json::exception&) {
    refuse_words(key, text);
  }
}

int launcher_number(const std::string& key, const std::string& text, int least, int most) {
  int value = 0;
  const char* end = text.data() + text.size();
  const auto [stop, problem] = std::from_chars(text.data(), end, value);
  if (problem != std::errc() || stop != end || value < least || value > most) refuse_words(key, text);
  return value;
}

}  // namespace lockstep
