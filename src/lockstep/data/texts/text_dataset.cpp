#include "lockstep/data/text_dataset.h"

#include <fmt/format.h>

#include "lockstep/base/error.h"

namespace lockstep {

void TextDataset::check_index(std::int64_t index) const {
  if (index >= 0 && index < size()) return;
  throw Error(fmt::format("there is no row {} in a dataset of {} rows", index, size()), "TextDataset",
              "ask for indices from 0 to size() - 1");
}

TextRow TextDataset::get(std::int64_t index) const {
  check_index(index);
  return do_get(index);
}

std::string TextDataset::where(std::int64_t index) const {
  check_index(index);
  return do_where(index);
}

}  // namespace lockstep
