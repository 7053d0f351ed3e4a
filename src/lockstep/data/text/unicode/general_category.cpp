#include "lockstep/data/text/unicode/general_category.h"

#include <unicode/uchar.h>

#include <algorithm>
#include <iterator>
#include <utility>

namespace lockstep::text {
namespace {

struct CategoryRange {
  char32_t first;
  char32_t last;
  std::uint32_t mask;
};

// Assigned after Unicode 15.0, the version of the oldest supported ICU, and before 16.1.
constexpr CategoryRange kCategoriesAfter15[] = {
    {0x897, 0x897, U_GC_MN_MASK},     {0x1B4E, 0x1B4F, U_GC_PO_MASK},   {0x1B7F, 0x1B7F, U_GC_PO_MASK},
    {0x1C89, 0x1C89, U_GC_LU_MASK},   {0x1C8A, 0x1C8A, U_GC_LL_MASK},   {0x2427, 0x2429, U_GC_SO_MASK},
    {0x2FFC, 0x2FFF, U_GC_SO_MASK},   {0x31E4, 0x31E5, U_GC_SO_MASK},   {0x31EF, 0x31EF, U_GC_SO_MASK},
    {0xA7CB, 0xA7CC, U_GC_LU_MASK},   {0xA7CD, 0xA7CD, U_GC_LL_MASK},   {0xA7DA, 0xA7DA, U_GC_LU_MASK},
    {0xA7DB, 0xA7DB, U_GC_LL_MASK},   {0xA7DC, 0xA7DC, U_GC_LU_MASK},   {0x105C0, 0x105F3, U_GC_LO_MASK},
    {0x10D40, 0x10D49, U_GC_ND_MASK}, {0x10D4A, 0x10D4D, U_GC_LO_MASK}, {0x10D4E, 0x10D4E, U_GC_LM_MASK},
    {0x10D4F, 0x10D4F, U_GC_LO_MASK}, {0x10D50, 0x10D65, U_GC_LU_MASK}, {0x10D69, 0x10D6D, U_GC_MN_MASK},
    {0x10D6E, 0x10D6E, U_GC_PD_MASK}, {0x10D6F, 0x10D6F, U_GC_LM_MASK}, {0x10D70, 0x10D85, U_GC_LL_MASK},
    {0x10D8E, 0x10D8F, U_GC_SM_MASK}, {0x10EC2, 0x10EC4, U_GC_LO_MASK}, {0x10EFC, 0x10EFC, U_GC_MN_MASK},
    {0x11380, 0x11389, U_GC_LO_MASK}, {0x1138B, 0x1138B, U_GC_LO_MASK}, {0x1138E, 0x1138E, U_GC_LO_MASK},
    {0x11390, 0x113B5, U_GC_LO_MASK}, {0x113B7, 0x113B7, U_GC_LO_MASK}, {0x113B8, 0x113BA, U_GC_MC_MASK},
    {0x113BB, 0x113C0, U_GC_MN_MASK}, {0x113C2, 0x113C2, U_GC_MC_MASK}, {0x113C5, 0x113C5, U_GC_MC_MASK},
    {0x113C7, 0x113CA, U_GC_MC_MASK}, {0x113CC, 0x113CD, U_GC_MC_MASK}, {0x113CE, 0x113CE, U_GC_MN_MASK},
    {0x113CF, 0x113CF, U_GC_MC_MASK}, {0x113D0, 0x113D0, U_GC_MN_MASK}, {0x113D1, 0x113D1, U_GC_LO_MASK},
    {0x113D2, 0x113D2, U_GC_MN_MASK}, {0x113D3, 0x113D3, U_GC_LO_MASK}, {0x113D4, 0x113D5, U_GC_PO_MASK},
    {0x113D7, 0x113D8, U_GC_PO_MASK}, {0x113E1, 0x113E2, U_GC_MN_MASK}, {0x116D0, 0x116E3, U_GC_ND_MASK},
    {0x11BC0, 0x11BE0, U_GC_LO_MASK}, {0x11BE1, 0x11BE1, U_GC_PO_MASK}, {0x11BF0, 0x11BF9, U_GC_ND_MASK},
    {0x11F5A, 0x11F5A, U_GC_MN_MASK}, {0x13460, 0x143FA, U_GC_LO_MASK}, {0x16100, 0x1611D, U_GC_LO_MASK},
    {0x1611E, 0x16129, U_GC_MN_MASK}, {0x1612A, 0x1612C, U_GC_MC_MASK}, {0x1612D, 0x1612F, U_GC_MN_MASK},
    {0x16130, 0x16139, U_GC_ND_MASK}, {0x16D40, 0x16D42, U_GC_LM_MASK}, {0x16D43, 0x16D6A, U_GC_LO_MASK},
    {0x16D6B, 0x16D6C, U_GC_LM_MASK}, {0x16D6D, 0x16D6F, U_GC_PO_MASK}, {0x16D70, 0x16D79, U_GC_ND_MASK},
    {0x18CFF, 0x18CFF, U_GC_LO_MASK}, {0x1CC00, 0x1CCEF, U_GC_SO_MASK}, {0x1CCF0, 0x1CCF9, U_GC_ND_MASK},
    {0x1CD00, 0x1CEB3, U_GC_SO_MASK}, {0x1E5D0, 0x1E5ED, U_GC_LO_MASK}, {0x1E5EE, 0x1E5EF, U_GC_MN_MASK},
    {0x1E5F0, 0x1E5F0, U_GC_LO_MASK}, {0x1E5F1, 0x1E5FA, U_GC_ND_MASK}, {0x1E5FF, 0x1E5FF, U_GC_PO_MASK},
    {0x1F8B2, 0x1F8BB, U_GC_SO_MASK}, {0x1F8C0, 0x1F8C1, U_GC_SO_MASK}, {0x1FA89, 0x1FA89, U_GC_SO_MASK},
    {0x1FA8F, 0x1FA8F, U_GC_SO_MASK}, {0x1FABE, 0x1FABE, U_GC_SO_MASK}, {0x1FAC6, 0x1FAC6, U_GC_SO_MASK},
    {0x1FADC, 0x1FADC, U_GC_SO_MASK}, {0x1FADF, 0x1FADF, U_GC_SO_MASK}, {0x1FAE9, 0x1FAE9, U_GC_SO_MASK},
    {0x1FBCB, 0x1FBEF, U_GC_SO_MASK}, {0x2EBF0, 0x2EE5D, U_GC_LO_MASK}};

constexpr std::pair<std::string_view, std::uint32_t> kCategoryNames[] = {
    {"L", U_GC_L_MASK},   {"Lu", U_GC_LU_MASK}, {"Ll", U_GC_LL_MASK}, {"Lt", U_GC_LT_MASK}, {"Lm", U_GC_LM_MASK},
    {"Lo", U_GC_LO_MASK}, {"M", U_GC_M_MASK},   {"Mn", U_GC_MN_MASK}, {"Mc", U_GC_MC_MASK}, {"Me", U_GC_ME_MASK},
    {"N", U_GC_N_MASK},   {"Nd", U_GC_ND_MASK}, {"Nl", U_GC_NL_MASK}, {"No", U_GC_NO_MASK}, {"P", U_GC_P_MASK},
    {"Pc", U_GC_PC_MASK}, {"Pd", U_GC_PD_MASK}, {"Ps", U_GC_PS_MASK}, {"Pe", U_GC_PE_MASK}, {"Pi", U_GC_PI_MASK},
    {"Pf", U_GC_PF_MASK}, {"Po", U_GC_PO_MASK}, {"S", U_GC_S_MASK},   {"Sm", U_GC_SM_MASK}, {"Sc", U_GC_SC_MASK},
    {"Sk", U_GC_SK_MASK}, {"So", U_GC_SO_MASK}, {"Z", U_GC_Z_MASK},   {"Zs", U_GC_ZS_MASK}, {"Zl", U_GC_ZL_MASK},
    {"Zp", U_GC_ZP_MASK}};

}  // namespace

std::uint32_t category_mask(char32_t c) {
  constexpr int kVersion = 16;
  const auto* after = std::upper_bound(std::begin(kCategoriesAfter15), std::end(kCategoriesAfter15), c,
                                       [](char32_t value, const CategoryRange& range) { return value < range.first; });
  if (after != std::begin(kCategoriesAfter15) && c <= std::prev(after)->last) return std::prev(after)->mask;
  UVersionInfo version;
  u_charAge(static_cast<UChar32>(c), version);
  if (version[0] > kVersion || (version[0] == kVersion && version[1] > 0)) return U_GC_CN_MASK;
  return U_GET_GC_MASK(static_cast<UChar32>(c));
}

std::optional<std::uint32_t> category_mask_of_name(std::string_view name) {
  for (const auto& [known, mask] : kCategoryNames) {
    if (known == name) return mask;
  }
  return std::nullopt;
}

}  // namespace lockstep::text
