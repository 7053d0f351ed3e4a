#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <string_view>
#include <vector>

#include "lockstep/data/text/patterns/split_pattern.h"

namespace lockstep::text {

/// How texts are cut into words before byte pairs join: one step cuts the pieces of the one before. Thread-safe.
class TextSplitter {
 public:
  /// A match of `pattern` is a piece, and so is what lies between two matches; if `drops_rest`, that is left out.
  void add_pattern(std::shared_ptr<const SplitPattern> pattern, bool drops_rest);
  /// Cuts as GPT-2's pattern does.
  void add_gpt2();

  /// Calls `word(begin, end)` for each piece of `text`, in order.
  using Word = std::function<void(std::size_t begin, std::size_t end)>;
  void split(std::string_view text, const Word& word) const;

 private:
  struct Step {
    std::shared_ptr<const SplitPattern> pattern;  // null: GPT-2's
    bool drops_rest = false;
  };

  void split_from(std::size_t step, std::string_view text, std::size_t begin, const Word& word) const;

  std::vector<Step> steps_;
};

}  // namespace lockstep::text
