#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cstdint>

#include "lockstep/version.h"
#include "tools/lockstep/completions/shell_scripts.h"

namespace lockstep {
namespace {

constexpr const char* kBeginOfManual = R"(.TH LOCKSTEP 1 "" "Lockstep {}" "User Commands"
.SH NAME
lockstep \- data-parallel training for C++ on LibTorch
.SH SYNOPSIS
.B lockstep
.I SUBCOMMAND
.RI [ flags ]
.SH DESCRIPTION
Trains models on several processes, devices and hosts, each of which has a part of every batch; starts and watches
such jobs; and shows what they read and write.
Words of flags may be separated by hyphens or underscores.
A flag's value is the next word, or follows an equals sign.
)";

constexpr const char* kEndOfManual = R"(.SH EXIT STATUS
0: success. 1: the work failed. 2: the command line was not understood.
.BR "lockstep run" " and " "lockstep launch"
end with 1 if a rank failed, and with 128 and the signal's number if a signal ended the job.
.SH SEE ALSO
.BR torchrun (1),
.BR sbatch (1)
)";

// A character beyond ASCII as troff names it, "\\[u2026]"; `at` goes to its last byte.
std::string named_character(const std::string& text, std::size_t& at) {
  const auto byte = [&](std::size_t place) { return static_cast<unsigned char>(text[place]); };
  const int following = byte(at) >= 0xf0 ? 3 : byte(at) >= 0xe0 ? 2 : 1;
  std::uint32_t code = byte(at) & (0x3fU >> following);
  for (int i = 0; i < following && at + 1 < text.size(); ++i) code = code << 6 | (byte(++at) & 0x3fU);
  return fmt::format("\\[u{:04X}]", code);
}

// A text that troff shows as it is: no escapes, and no request at its beginning.
std::string of_troff(const std::string& text) {
  std::string out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (static_cast<unsigned char>(c) >= 0x80) {
      out += named_character(text, i);
      continue;
    }
    if (c == '\\') {
      out += "\\e";
    } else if (c == '-') {
      out += "\\-";
    } else if ((c == '.' || c == '\'') && (out.empty() || out.back() == '\n')) {
      out += std::string("\\&") + c;
    } else {
      out += c;
    }
  }
  return out;
}

std::string option_text(const OptionFacts& option) {
  std::string names;
  for (const std::string& name : option.names)
    names += (names.empty() ? "" : ", ") + ("\\fB" + of_troff(name) + "\\fR");
  std::string text = ".TP\n" + names;
  if (!option.choices.empty()) {
    text += fmt::format(" \\fI{}\\fR", of_troff(fmt::format("{}", fmt::join(option.choices, "|"))));
  } else if (!option.value.empty()) {
    text += " \\fI" + of_troff(option.value) + "\\fR";
  }
  text += "\n" + of_troff(option.help.empty() ? "required by its place" : option.help);
  if (option.is_required) text += " (required)";
  if (!option.usual.empty()) text += of_troff(" [" + option.usual + "]");
  return text + "\n";
}

}  // namespace

std::string manual_page(const std::vector<CommandFacts>& commands) {
  std::string page = fmt::format(kBeginOfManual, LOCKSTEP_VERSION);
  page += ".SH SUBCOMMANDS\n";
  for (const CommandFacts& command : commands) {
    if (is_outermost(command)) {
      page += ".TP\n\\fB" + of_troff(command.path) + "\\fR\n" + of_troff(command.summary) + "\n";
    }
  }
  for (const CommandFacts& command : commands) {
    page += fmt::format(".SH \"LOCKSTEP {}\"\n{}\n", of_troff(command.path), of_troff(command.summary));
    for (const OptionFacts& option : command.options) page += option_text(option);
    if (!command.footer.empty()) page += ".PP\n.nf\n" + of_troff(command.footer) + "\n.fi\n";
  }
  return page + kEndOfManual;
}

}  // namespace lockstep
