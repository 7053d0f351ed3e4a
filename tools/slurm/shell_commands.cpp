#include "tools/slurm/shell_commands.h"

#include <algorithm>
#include <cctype>
#include <set>
#include <string_view>

#include "lockstep/launch/process/text_cursor.h"

namespace lockstep {
namespace {

// "NAME=...", "NAME+=...": set for one command, or for all later ones.
bool is_assignment(std::string_view word) {
  TextCursor at(word);
  if (!at.take(kNameLetters)) return false;
  at.take_all(kNameCharacters);
  at.take("+");
  return at.take("=");
}

// One pass, without recursion: takes time linear in any text.
class ShellReader {
 public:
  explicit ShellReader(const std::string& text) : text_(text) {}

  std::vector<ShellCommand> run() {
    while (at_ < text_.size()) step();
    end_command();
    return std::move(commands_);
  }

 private:
  bool next_is(const char* text) const { return text_.compare(at_, std::char_traits<char>::length(text), text) == 0; }

  // Moves one character into the word.
  void take() {
    if (word_.empty()) word_line_ = line_;
    if (text_[at_] == '\n') ++line_;
    word_ += text_[at_++];
  }

  void step() {
    const char c = text_[at_];
    if (c == '\\') return escape();
    if (c == '\'' || c == '"' || c == '`') return quote(c);
    if (next_is("$(") || (next_is("((") && word_.empty())) return parentheses();
    if (next_is("${")) return until_brace();
    if (c == '#' && word_.empty()) return comment();
    if (next_is("<<<")) return here_string();
    if (next_is("<<")) return here_document();
    if (c == '\n') return end_line();
    if (c == ' ' || c == '\t' || c == '\r') {
      ++at_;
      return end_word();
    }
    if (in_test_ && word_ != "]]") return take();
    if (c == ';' || c == '|' || (c == '&' && !is_redirection())) {
      ++at_;
      return end_command();
    }
    if (c == '(' || c == ')') return bracket(c);
    take();
  }

  void escape() {
    if (text_.compare(at_, 2, "\\\n") == 0) {
      at_ += 2;
      ++line_;
      return;
    }
    take();
    if (at_ < text_.size()) take();
  }

  void quote(char mark) {
    take();
    while (at_ < text_.size() && text_[at_] != mark) {
      if (text_[at_] == '\\' && mark != '\'') take();
      if (at_ < text_.size()) take();
    }
    if (at_ < text_.size()) take();
  }

  void parentheses() {
    int depth = 0;
    do {
      const char c = text_[at_];
      if (c == '\'' || c == '"') {
        quote(c);
        continue;
      }
      depth += c == '(' ? 1 : c == ')' ? -1 : 0;
      take();
      if (c == ')' && depth == 0) return;
    } while (at_ < text_.size());
  }

  void until_brace() {
    while (at_ < text_.size() && text_[at_] != '}') take();
    if (at_ < text_.size()) take();
  }

  void comment() {
    while (at_ < text_.size() && text_[at_] != '\n') ++at_;
  }

  // "2>&1", "&>file"
  bool is_redirection() const {
    return (at_ > 0 && (text_[at_ - 1] == '>' || text_[at_ - 1] == '<')) ||
           (at_ + 1 < text_.size() && text_[at_ + 1] == '>');
  }

  // "f()" defines a function; "(a; b)" groups; "a)" is a pattern of case.
  void bracket(char c) {
    if (c == '(' && text_.compare(at_, 2, "()") == 0 && !word_.empty()) {
      word_.clear();
      words_.clear();
      at_ += 2;
      return;
    }
    ++at_;
    if (c == '(') {
      ++groups_;
    } else if (groups_ > 0) {
      --groups_;
    } else {
      word_.clear();
      words_.clear();
      return;
    }
    end_command();
  }

  void here_string() {
    for (int i = 0; i < 3; ++i) take();
  }

  // "<<END", "<<-END", "<< 'END'": the lines that follow this one belong to it.
  void here_document() {
    TextCursor mark(std::string_view(text_).substr(at_));
    mark.take_word("<<");
    mark.take("-");
    mark.take_all(" \t");
    mark.take("'\"\\");
    const std::string_view end = mark.take_all(kNameCharacters);
    if (!end.empty()) document_ends_.emplace_back(end);
    take();
    take();
  }

  void end_line() {
    ++at_;
    ++line_;
    end_word();
    if (!in_test_) end_command();
    for (const std::string& end : document_ends_) skip_document(end);
    document_ends_.clear();
  }

  void skip_document(const std::string& end) {
    while (at_ < text_.size()) {
      const std::size_t stop = std::min(text_.find('\n', at_), text_.size());
      std::string line = text_.substr(at_, stop - at_);
      at_ = std::min(stop + 1, text_.size());
      ++line_;
      line.erase(0, line.find_first_not_of('\t'));
      if (line == end) return;
    }
  }

  void end_word() {
    if (word_.empty()) return;
    const std::string word = std::move(word_);
    word_.clear();
    if (word == "]]") in_test_ = false;
    if (words_.empty()) {
      static const std::set<std::string> keywords{"if", "then", "elif", "else", "while", "until", "do",
                                                  "!",  "time", "{",    "exec", "env",   "nohup", "command"};
      if (keywords.count(word) != 0 || is_assignment(word)) return;
      if (word == "[[") in_test_ = true;
      first_line_ = word_line_;
    }
    words_.push_back(word);
    // "case word in" ends here; its patterns follow.
    if (words_.size() == 3 && words_[0] == "case" && word == "in") words_.clear();
  }

  void end_command() {
    end_word();
    in_test_ = false;
    static const std::set<std::string> ends{"fi", "done", "esac", "}"};
    if (!words_.empty() && ends.count(words_.front()) == 0) commands_.push_back({first_line_, words_});
    words_.clear();
  }

  const std::string& text_;
  std::size_t at_ = 0;
  int line_ = 1;
  std::string word_;
  int word_line_ = 1;
  std::vector<std::string> words_;
  int first_line_ = 1;
  int groups_ = 0;
  bool in_test_ = false;
  std::vector<std::string> document_ends_;
  std::vector<ShellCommand> commands_;
};

}  // namespace

std::vector<ShellCommand> shell_commands(const std::string& text) { return ShellReader(text).run(); }

}  // namespace lockstep
