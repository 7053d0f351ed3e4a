// Decimal numbers: Lockstep's and the libraries' functions.
#include <fast_float/fast_float.h>

#include <charconv>

#include "bench/libraries/turns.h"
#include "lockstep/data/csv/csv_tokenizer.h"
#include "lockstep/data/csv/decimal.h"
#include "lockstep/data/files/file_bytes.h"

namespace {

using Pieces = std::vector<std::string_view>;

// The fields behind the head that are numbers.
Pieces numbers_of(const lockstep::FileBytes& file) {
  lockstep::CsvTokenizer tokenizer(file.view(), file.path());
  std::vector<lockstep::CsvField> fields;
  Pieces numbers;
  tokenizer.next(fields);
  while (tokenizer.next(fields)) {
    for (const lockstep::CsvField& field : fields) {
      if (lockstep::parse_decimal(field.text)) numbers.push_back(field.text);
    }
  }
  return numbers;
}

std::size_t bytes_of(const Pieces& pieces) {
  std::size_t bytes = 0;
  for (const std::string_view piece : pieces) bytes += piece.size();
  return bytes;
}

template <typename Value>
std::size_t add_up(const Pieces& pieces, Value&& value) {
  double sum = 0;
  for (const std::string_view piece : pieces) sum += value(piece);
  return static_cast<std::size_t>(sum);
}

void compare_decimals(const lockstep::FileBytes& file) {
  const Pieces numbers = numbers_of(file);
  lockstep::print_turns(
      "numbers of a table", bytes_of(numbers),
      {{"parse_decimal",
        [&] { return add_up(numbers, [](std::string_view text) { return *lockstep::parse_decimal(text); }); }},
       {"std::from_chars",
        [&] {
          return add_up(numbers, [](std::string_view text) {
            double value = 0;
            std::from_chars(text.data(), text.data() + text.size(), value);
            return value;
          });
        }},
       {"fast_float::from_chars", [&] {
          return add_up(numbers, [](std::string_view text) {
            double value = 0;
            fast_float::from_chars(text.data(), text.data() + text.size(), value);
            return value;
          });
        }}});
}

}  // namespace

int main(int, char** argv) { compare_decimals(lockstep::FileBytes::open(argv[1])); }
