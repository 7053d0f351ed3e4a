#include "lockstep/base/files/duplicate_key.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <vector>

#include "lockstep/base/error.h"
#include "lockstep/base/files/json_events.h"
#include "lockstep/base/text/printable.h"

namespace lockstep {
namespace {

// Reads a text and counts how much of it was consumed: the parser reports positions only for errors.
class CountedText {
 public:
  using value_type = char;
  using difference_type = std::ptrdiff_t;
  using pointer = const char*;
  using reference = const char&;
  using iterator_category = std::input_iterator_tag;

  CountedText(const char* at, const char** furthest) : at_(at), furthest_(furthest) {}
  reference operator*() const { return *at_; }
  CountedText& operator++() {
    ++at_;
    if (furthest_ != nullptr) *furthest_ = std::max(*furthest_, at_);
    return *this;
  }
  CountedText operator++(int) {
    CountedText before = *this;
    ++*this;
    return before;
  }
  bool operator==(const CountedText& other) const { return at_ == other.at_; }
  bool operator!=(const CountedText& other) const { return at_ != other.at_; }

 private:
  const char* at_;
  const char** furthest_;
};

class KeyCheck : public JsonEvents {
 public:
  KeyCheck(const std::string& text, const std::string& path) : here_(text.data()), counted_(here_), path_(path) {}

  const char** here() { return &here_; }
  bool start_object(std::size_t) override {
    open_.emplace_back();
    return true;
  }
  bool end_object() override {
    open_.pop_back();
    return true;
  }
  bool key(std::string& name) override {
    const std::int64_t line = line_here();
    const auto [first, is_new] = open_.back().emplace(name, line);
    if (is_new) return true;
    throw UsageError(fmt::format("the key \"{}\" occurs twice: here and in line {}", printable(name), first->second),
                     fmt::format("{}:{}", path_, line), "remove one of the two");
  }

 private:
  // Each line is counted once, however many keys there are.
  std::int64_t line_here() {
    line_ += std::count(counted_, here_, '\n');
    counted_ = here_;
    return line_;
  }

  const char* here_;
  const char* counted_;  // lines before this place are counted in line_
  std::int64_t line_ = 1;
  const std::string& path_;
  std::vector<std::map<std::string, std::int64_t>> open_;  // for each open object: its keys, and their lines
};

}  // namespace

void refuse_duplicate_keys(const std::string& text, const std::string& path) {
  KeyCheck check(text, path);
  nlohmann::json::sax_parse(CountedText(text.data(), check.here()), CountedText(text.data() + text.size(), nullptr),
                            &check);
}

}  // namespace lockstep
