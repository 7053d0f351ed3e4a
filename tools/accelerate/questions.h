#pragma once

#include <fmt/format.h>

#include <cstddef>
#include <istream>
#include <ostream>
#include <string>
#include <vector>

#include "lockstep/base/error.h"
#include "lockstep/base/text/lower_case.h"

namespace lockstep {

/// Asks a person or a file. An empty line takes the default; an invalid answer is explained, and the question is asked
/// again.
class Questions {
 public:
  Questions(std::istream& in, std::ostream& out) : in_(in), out_(out) {}

  std::string text(const std::string& question, const std::string& otherwise = "") {
    out_ << question << std::flush;
    std::string line;
    if (!std::getline(in_, line)) {
      throw Error("the input ended at the question: " + question, "standard input",
                  "answer every question, or write the defaults with `lockstep config default`");
    }
    const std::size_t first = line.find_first_not_of(" \t\r");
    if (first == std::string::npos) return otherwise;
    return line.substr(first, line.find_last_not_of(" \t\r") - first + 1);
  }

  void say(const std::string& line) { out_ << line << "\n"; }

  std::string required(const std::string& question) {
    for (;;) {
      std::string answer = text(question);
      if (!answer.empty()) return answer;
      say("Please enter a value.");
    }
  }

  bool yes_no(const std::string& question, bool otherwise = false) {
    for (;;) {
      const std::string answer = lower_case(text(question, otherwise ? "yes" : "no"));
      if (answer == "yes" || answer == "y" || answer == "true" || answer == "1") return true;
      if (answer == "no" || answer == "n" || answer == "false" || answer == "0") return false;
      say("Please enter yes or no.");
    }
  }

  int whole(const std::string& question, int least, int most, int otherwise) {
    for (;;) {
      const std::string answer = text(question, std::to_string(otherwise));
      if (answer.size() < 10 && answer.find_first_not_of("0123456789") == std::string::npos) {
        const int value = std::stoi(answer);
        if (value >= least && value <= most) return value;
      }
      say(fmt::format("Please enter a whole number from {} to {}.", least, most));
    }
  }

  /// The number of the chosen option; the answer may be its number or its text.
  std::size_t menu(const std::string& question, const std::vector<std::string>& options, std::size_t otherwise = 0) {
    out_ << question << "\n";
    for (std::size_t i = 0; i < options.size(); ++i) out_ << fmt::format("  {}  {}\n", i, options[i]);
    for (;;) {
      const std::string answer = lower_case(
          text(fmt::format("Choose 0 to {} [{}]: ", options.size() - 1, otherwise), std::to_string(otherwise)));
      for (std::size_t i = 0; i < options.size(); ++i) {
        if (answer == lower_case(options[i])) return i;  // as it is written, before its number
      }
      for (std::size_t i = 0; i < options.size(); ++i) {
        if (answer == std::to_string(i)) return i;
      }
      say("Please enter one of the numbers.");
    }
  }

  /// A question to which Lockstep cannot accept "yes".
  void must_be_no(const std::string& question, const std::string& why) {
    while (yes_no(question)) say(why);
  }

 private:
  std::istream& in_;
  std::ostream& out_;
};

}  // namespace lockstep
