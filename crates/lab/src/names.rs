//! Enums whose variants have names that do not change.

/// Declares one: `ALL` has the variants in their order, and `name` says what each is called.
macro_rules! named {
    ($(#[$about:meta])* pub enum $type:ident { $($(#[$doc:meta])* $variant:ident = $name:literal,)* }) => {
        $(#[$about])*
        pub enum $type {
            $($(#[$doc])* $variant,)*
        }

        impl $type {
            /// All, in their order.
            pub const ALL: [$type; [$($name),*].len()] = [$($type::$variant),*];

            /// In what is saved and shown.
            pub fn name(self) -> &'static str {
                match self {
                    $($type::$variant => $name,)*
                }
            }
        }
    };
}

pub(crate) use named;
