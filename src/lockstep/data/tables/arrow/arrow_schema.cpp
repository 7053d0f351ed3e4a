#include "lockstep/data/tables/arrow/arrow_schema.h"

#include <fmt/format.h>

#include "lockstep/data/tables/table_fault.h"

namespace lockstep {
namespace {

constexpr int kName = 0, kTypeKind = 2, kType = 3, kDictionary = 4, kChildren = 5;  // of the table Field

ArrowLayout layout_of_int(const FlatTable& type) {
  const auto bits = type.number<std::int32_t>(0, 0);
  if (bits != 8 && bits != 16 && bits != 32 && bits != 64) throw TableFault(fmt::format("a number has {} bits", bits));
  return {ArrowType::Int, bits, type.number<std::int8_t>(1, 0) != 0};
}

ArrowLayout layout_of(ArrowType kind, const std::optional<FlatTable>& type) {
  if (kind == ArrowType::Int && type) return layout_of_int(*type);
  if (kind != ArrowType::FloatingPoint) return {kind};
  const int precision = type ? type->number<std::int16_t>(0, 0) : 0;
  if (precision < 0 || precision > 2) throw TableFault(fmt::format("a number has the precision {}", precision));
  return {kind, 16 << precision};
}

std::string type_of_int(const ArrowLayout& layout) {
  return fmt::format("{}int{}", layout.is_signed ? "" : "u", layout.bits);
}

std::string unit_in(const std::optional<FlatTable>& type, int field, int otherwise) {
  static constexpr const char* kUnits[] = {"s", "ms", "us", "ns"};
  const int unit = type ? type->number<std::int16_t>(field, static_cast<std::int16_t>(otherwise)) : otherwise;
  return unit >= 0 && unit < 4 ? kUnits[unit] : "?";
}

/// Texts and columns of a description that points to the same place again and again may be many more than its bytes.
class ArrowBudget {
 public:
  explicit ArrowBudget(const FlatTable& schema) : left_(schema.message_bytes()) {}

  void spend(std::size_t count) {
    if (count > left_) throw TableFault("its description holds one thing several times");
    left_ -= count;
  }
  std::string spend_text(std::string_view text) {
    spend(text.size());
    return std::string(text);
  }

 private:
  std::size_t left_;
};

/// Goes through the columns, nested ones first to last, as the pieces of a batch lie.
class ArrowTree {
 public:
  explicit ArrowTree(ArrowBudget& budget) : budget_(budget) {}

  ArrowField next_field(const FlatTable& field) {
    ArrowField out;
    out.node = nodes_;
    out.buffer = buffers_;
    out.views_before = views_;
    const auto kind = kind_of(field);
    const auto type = field.table(kType);
    out.values = layout_of(kind, type);
    out.field.name = budget_.spend_text(field.text(kName));
    if (const auto dictionary = field.table(kDictionary)) {
      const auto index = dictionary->table(1);
      out.has_dictionary = true;
      out.dictionary = dictionary->number<std::int64_t>(0, 0);
      out.places = index ? layout_of_int(*index) : ArrowLayout{ArrowType::Int, 32};
    }
    out.field.type = next_type(field, 0);
    out.field.kind = kind_of_values(out.values);
    return out;
  }

 private:
  static ArrowType kind_of(const FlatTable& field) {
    const auto kind = field.number<std::uint8_t>(kTypeKind, 0);
    if (kind == 0 || kind > static_cast<int>(ArrowType::LargeListView)) {
      throw TableFault(fmt::format("the column \"{}\" has the unknown type {}", field.text(kName), kind));
    }
    return static_cast<ArrowType>(kind);
  }

  static ValueKind kind_of_values(const ArrowLayout& values) {
    switch (values.type) {
      case ArrowType::Utf8:
      case ArrowType::LargeUtf8:
        return ValueKind::Text;
      case ArrowType::Int:
        return ValueKind::Whole;
      case ArrowType::Bool:
        return ValueKind::Boolean;
      case ArrowType::FloatingPoint:
        return values.bits == 32 || values.bits == 64 ? ValueKind::Fraction : ValueKind::Other;
      default:
        return ValueKind::Other;
    }
  }

  // The type of a column, whose pieces are counted.
  std::string next_type(const FlatTable& field, int depth) {
    constexpr int kDeepest = 64;
    if (depth > kDeepest) throw TableFault("its columns are nested too deeply");
    ++nodes_;
    const ArrowType kind = kind_of(field);
    if (const auto dictionary = field.table(kDictionary)) {
      buffers_ += 2;  // places alone; the values, and what is below them, lie in the dictionary
      const auto index = dictionary->table(1);
      return fmt::format("dictionary<values={}, indices={}>", flat_type(kind, field.table(kType)),
                         index ? type_of_int(layout_of_int(*index)) : "int32");
    }
    count_buffers(kind, field);
    std::vector<std::string> inner;
    const std::vector<FlatTable> children = field.tables(kChildren);
    budget_.spend(children.size());
    for (const FlatTable& child : children) {
      const std::string name = budget_.spend_text(child.text(kName));
      inner.push_back((kind == ArrowType::Struct ? name + ": " : "") + next_type(child, depth + 1));
    }
    return nested_type(kind, field.table(kType), inner);
  }

  void count_buffers(ArrowType kind, const FlatTable& field) {
    switch (kind) {
      case ArrowType::Null:
      case ArrowType::RunEndEncoded:
        return;
      case ArrowType::Struct:
      case ArrowType::FixedSizeList:
        buffers_ += 1;
        return;
      case ArrowType::Union: {
        const auto type = field.table(kType);
        buffers_ += type && type->number<std::int16_t>(0, 0) == 1 ? 2 : 1;
        return;
      }
      case ArrowType::Utf8View:
      case ArrowType::BinaryView:
        ++views_;
        buffers_ += 2;
        return;
      case ArrowType::Utf8:
      case ArrowType::LargeUtf8:
      case ArrowType::Binary:
      case ArrowType::LargeBinary:
      case ArrowType::ListView:
      case ArrowType::LargeListView:
        buffers_ += 3;
        return;
      default:
        buffers_ += 2;
    }
  }

  static std::string nested_type(ArrowType kind, const std::optional<FlatTable>& type,
                                 const std::vector<std::string>& inner) {
    const std::string first = inner.empty() ? "?" : inner.front();
    switch (kind) {
      case ArrowType::List:
      case ArrowType::ListView:
        return "list<" + first + ">";
      case ArrowType::LargeList:
      case ArrowType::LargeListView:
        return "large_list<" + first + ">";
      case ArrowType::FixedSizeList:
        return fmt::format("fixed_size_list<{}>[{}]", first, type ? type->number<std::int32_t>(0, 0) : 0);
      case ArrowType::Map:
        return "map" + (first.rfind("struct", 0) == 0 ? first.substr(6) : "<" + first + ">");
      case ArrowType::Struct:
        return fmt::format("struct<{}>", joined(inner));
      case ArrowType::Union:
        return fmt::format("union<{}>", joined(inner));
      case ArrowType::RunEndEncoded:
        return fmt::format("run_end_encoded<{}>", joined(inner));
      default:
        return flat_type(kind, type);
    }
  }

  static std::string joined(const std::vector<std::string>& parts) {
    std::string text;
    for (const std::string& part : parts) text += (text.empty() ? "" : ", ") + part;
    return text;
  }

  static std::string flat_type(ArrowType kind, const std::optional<FlatTable>& type) {
    static constexpr const char* kTypeNames[] = {"none",
                                                 "null",
                                                 "int",
                                                 "float",
                                                 "binary",
                                                 "string",
                                                 "bool",
                                                 "decimal",
                                                 "date",
                                                 "time",
                                                 "timestamp",
                                                 "interval",
                                                 "list",
                                                 "struct",
                                                 "union",
                                                 "fixed_size_binary",
                                                 "fixed_size_list",
                                                 "map",
                                                 "duration",
                                                 "large_binary",
                                                 "large_string",
                                                 "large_list",
                                                 "run_end_encoded",
                                                 "binary_view",
                                                 "string_view",
                                                 "list_view",
                                                 "large_list_view"};
    const ArrowLayout layout = layout_of(kind, type);
    switch (kind) {
      case ArrowType::Int:
        return type_of_int(layout);
      case ArrowType::FloatingPoint:
        return layout.bits == 16 ? "halffloat" : layout.bits == 32 ? "float" : "double";
      case ArrowType::Timestamp:
        return fmt::format("timestamp[{}]", unit_in(type, 0, 0));
      case ArrowType::Time:
      case ArrowType::Duration:
        return fmt::format("{}[{}]", kTypeNames[static_cast<int>(kind)], unit_in(type, 0, 1));
      case ArrowType::FixedSizeBinary:
        return fmt::format("fixed_size_binary[{}]", type ? type->number<std::int32_t>(0, 0) : 0);
      default:
        return kTypeNames[static_cast<int>(kind)];
    }
  }

  ArrowBudget& budget_;
  std::size_t nodes_ = 0, buffers_ = 0, views_ = 0;
};

}  // namespace

ArrowSchema read_arrow_schema_message(const FlatTable& schema) {
  if (schema.number<std::int16_t>(0, 0) != 0) {
    throw TableFault("its numbers are big-endian", "write it again on a host like this one");
  }
  ArrowSchema out;
  ArrowBudget budget(schema);
  ArrowTree tree(budget);
  for (const FlatTable& field : schema.tables(1)) out.fields.push_back(tree.next_field(field));
  for (const FlatTable& pair : schema.tables(2)) {
    out.texts.emplace_back(budget.spend_text(pair.text(0)), budget.spend_text(pair.text(1)));
  }
  return out;
}

}  // namespace lockstep
