//! Partition types for hash trees of dm-verity, after the Discoverable Partitions Specification of the UAPI group.
//!
//! A tree may have no superblock (`veritysetup --no-superblock`), and an image may have the signature of a root hash whose
//! tree lies behind the data, so that only the type says that the data of another partition are covered.

/// Whether a type, as it is in an entry of a GPT, is one of a hash tree or of the signature of its root hash.
pub(super) fn is_verity(kind: [u8; 16]) -> bool {
    let [a, b, c, d, e, f, g, h, rest @ ..] = kind;
    // The first three fields are little-endian.
    let text = [[d, c, b, a, f, e, h, g], rest].concat();
    TYPES.iter().any(|known| known.to_be_bytes()[..] == text[..])
}

/// For each architecture of the specification, the digits as it writes them. In each group: Alpha, ARC, 32-bit Arm, 64-bit
/// Arm, Itanium, LoongArch, 32-bit MIPS and 64-bit MIPS (little-endian), PA-RISC, 64-bit PowerPC (little-endian, then big-endian), 32-bit
/// PowerPC, 32-bit RISC-V, 64-bit RISC-V, s390, s390x, TILE-Gx, x86-64, x86.
const TYPES: &[u128] = &[
    // Hash trees of root.
    0xfc56_d9e9_e6e5_4c06_be32_e744_07ce_09a5,
    0x24b2_d975_0f97_4521_afa1_cd53_1e42_1b8d,
    0x7386_cdf2_203c_47a9_a498_f2ec_ce45_a2d6,
    0xdf33_00ce_d69f_4c92_978c_9bfb_0f38_d820,
    0x86ed_10d5_b607_45bb_8957_d350_f23d_0571,
    0xf339_3b22_e9af_4613_a948_9d3b_fbd0_c535,
    0xd7d1_50d2_2a04_4a33_8f12_1665_1205_ff7b,
    0x16b4_17f8_3e06_4f57_8dd2_9b52_32f4_1aa6,
    0xd212_a430_fbc5_49f9_a983_a7fe_ef2b_8d0e,
    0x906b_d944_4589_4aae_a4e4_dd98_3917_446a,
    0x9225_a9a3_3c19_4d89_b4f6_eeff_88f1_7631,
    0x98cf_e649_1588_46dc_b2f0_add1_4742_4925,
    0xae02_53be_1167_4007_ac68_4392_6c14_c5de,
    0xb6ed_5582_440b_4209_b8da_5ff7_c419_ea3d,
    0x7ac6_3b47_b25c_463b_8df8_b4a9_4e6c_90e1,
    0xb325_bfbe_c7be_4ab8_8357_139e_652d_2f6b,
    0x9660_61ec_28e4_4b2e_b4a5_1f0a_825a_1d84,
    0x2c73_57ed_ebd2_46d9_aec1_23d4_37ec_2bf5,
    0xd13c_5d3b_b5d1_422a_b29f_9454_fdc8_9d76,
    // Hash trees of /usr.
    0x8cce_0d25_c0d0_4a44_bd87_4633_1bf1_df67,
    0xfca0_598c_d880_4591_8c16_4eda_05c7_347c,
    0xc215_d751_7bcd_4649_be90_6627_490a_4c05,
    0x6e11_a4e7_fbca_4ded_b9e9_e1a5_12bb_664e,
    0x6a49_1e03_3be7_4545_8e38_8332_0e0e_a880,
    0xf46b_2c26_59ae_48f0_9106_c50e_d47f_673d,
    0x46b9_8d8d_b55c_4e8f_aab3_37fc_a7f8_0752,
    0x3c3d_61fe_b5f3_414d_bb71_8739_a694_a4ef,
    0x5843_d618_ec37_48d7_9f12_cea8_e087_68b2,
    0xee2b_9983_21e8_4153_86d9_b690_1a54_d1ce,
    0xbdb5_28a5_a259_475f_a87d_da53_fa73_6a07,
    0xdf76_5d00_270e_49e5_bc75_f47b_b211_8b09,
    0xcb1e_e4e3_8cd0_4136_a0a4_aa61_a32e_8730,
    0x8f10_56be_9b05_47c4_81d6_be53_128e_5b54,
    0xb663_c618_e7bc_4d6d_90aa_11b7_56bb_1797,
    0x3174_1cc4_1a2a_4111_a581_e00b_447d_2d06,
    0x2fb4_bf56_07fa_42da_8132_6b13_9f20_26ae,
    0x77ff_5f63_e7b6_4633_acf4_1565_b864_c0e6,
    0x8f46_1b0d_14ee_4e81_9aa9_049b_6fb9_7abd,
    // Signatures of those of root.
    0xd464_95b7_a053_414f_80f7_700c_9992_1ef8,
    0x143a_70ba_cbd3_4f06_919f_6c05_683a_78bc,
    0x42b0_455f_eb11_491d_98d3_5614_5ba9_d037,
    0x6db6_9de6_29f4_4758_a7a5_9621_90f0_0ce3,
    0xe98b_36ee_32ba_4882_9b12_0ce1_4655_f46a,
    0x5afb_67eb_ecc8_4f85_ae8e_ac1e_7c50_e7d0,
    0xc919_cc1f_4456_4eff_918c_f75e_9452_5ca5,
    0x904e_58ef_5c65_4a31_9c57_6af5_fc7c_5de7,
    0x15de_6170_65d3_431c_916e_b0dc_d839_3f25,
    0xd4a2_36e7_e873_4c07_bf1d_bf6c_f7f1_c3c6,
    0xf5e2_c20c_45b2_4ffa_bce9_2a60_737e_1aaf,
    0x1b31_b5aa_add9_463a_b2ed_bd46_7fc8_57e7,
    0x3a11_2a75_8729_4380_b4cf_764d_7993_4448,
    0xefe0_f087_ea8d_4469_821a_4c2a_96a8_386a,
    0x3482_388e_4254_435a_a241_766a_065f_9960,
    0xc801_87a5_73a3_491a_901a_017c_3fa9_53e9,
    0xb367_1439_97b0_4a53_90f7_2d5a_8f3a_d47b,
    0x4109_2b05_9fc8_4523_994f_2def_0408_b176,
    0x5996_fc05_109c_48de_808b_23fa_0830_b676,
    // Signatures of those of /usr.
    0x5c6e_1c76_076a_457a_a0fe_f3b4_cd21_ce6e,
    0x94f9_a9a1_9971_427a_a400_50cb_297f_0f35,
    0xd7ff_812f_37d1_4902_a810_d76b_a57b_975a,
    0xc23c_e4ff_44bd_4b00_b2d4_b41b_3419_e02a,
    0x8de5_8bc2_2a43_460d_b14e_a76e_4a17_b47f,
    0xb024_f315_d330_444c_8461_44bb_de52_4e99,
    0x3e23_ca0b_a4bc_4b4e_8087_5ab6_a26a_a8a9,
    0xf2c2_c7ee_adcc_4351_b5c6_ee98_16b6_6e16,
    0x450d_d7d1_3224_45ec_9cf2_a43a_346d_71ee,
    0xc8bf_bd1e_268e_4521_8bba_bf31_4c39_9557,
    0x0b88_8863_d7f8_4d9e_9766_239f_ce4d_58af,
    0x7007_891d_d371_4a80_86a4_5cb8_75b9_302e,
    0xc383_6a13_3137_45ba_b583_b16c_50fe_5eb4,
    0xd2f9_000a_7a18_453f_b5cd_4d32_f77a_7b32,
    0x1744_0e4f_a8d0_467f_a46e_3912_ae6e_f2c5,
    0x3f32_4816_667b_46ae_86ee_9b0c_0c6c_11b4,
    0x4ede_75e2_6ccc_4cc8_b9c7_7033_4b08_7510,
    0xe7bb_33fb_06cf_4e81_8273_e543_b413_e2e2,
    0x974a_71c0_de41_43c3_be5d_5c5c_cd1a_d2c0,
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bytes::guid;

    #[test]
    fn the_type_of_a_hash_tree_is_known_as_a_gpt_has_it() {
        assert!(is_verity(guid(0x2c73_57ed, 0xebd2, 0x46d9, 0xaec1_23d4_37ec_2bf5)), "root of x86-64");
        assert!(is_verity(guid(0xd2f9_000a, 0x7a18, 0x453f, 0xb5cd_4d32_f77a_7b32)), "signature of /usr of RISC-V");
        assert!(!is_verity(guid(0x4f68_bce3, 0xe8cd, 0x4db1, 0x96e7_fbca_f984_b709)), "a root filesystem");
    }
}
