#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep {

/// How a file holds its objects.
enum class JsonLayout {
  Lines,  ///< one a line
  Array,  ///< one array of them
  Squad,  ///< one object with the list "data", whose entries have "paragraphs"
  Data    ///< one object with a list "data" of other objects, which is not read
};

/// The layout of a file's text, seen from its beginning; text that is not JSON counts as lines.
JsonLayout json_layout(std::string_view text);

/// @throws Error  that says how to write rows, if the layout is Data
void refuse_data_list(JsonLayout layout, const std::string& path);

/// The columns of a file in any of these layouts: the keys of the first object, or those of SQuAD's format.
/// @throws Error  if the first record is not an object
std::vector<std::string> columns_of_json(const std::string& path);

/// The object of a record. @throws Error  with the reason, if `text` is not a JSON object
nlohmann::ordered_json parsed_record(std::string_view text, const std::string& where);

/// Goes through the records of a file: its lines that are not blank, or the elements of its array.
class JsonRecords {
 public:
  /// @param layout  Lines or Array
  JsonRecords(std::string_view file, JsonLayout layout, std::string path);

  /// Moves to the next record. Returns whether there is one. @throws Error  if an array has something else than objects
  bool next();
  std::string_view record() const { return file_.substr(begin_, end_ - begin_); }
  std::size_t begin() const { return begin_; }
  /// The line in which the record begins, from 1.
  std::int64_t line() const { return line_; }
  /// Location of a byte of the record, counted from 1.
  std::string where(std::size_t byte) const;

  /// The record that begins at `begin`.
  static std::string_view record_at(std::string_view file, std::size_t begin, JsonLayout layout);

 private:
  bool next_element();
  void move_to(std::size_t position);

  std::string_view file_;
  JsonLayout layout_;
  std::string path_;
  std::size_t begin_ = 0;
  std::size_t end_ = 0;
  std::size_t next_ = 0;     // where the search for the next record begins
  std::size_t counted_ = 0;  // bytes whose line ends are in line_
  std::int64_t line_ = 1;
};

}  // namespace lockstep
