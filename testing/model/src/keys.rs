//! Sets parameters by their names, which are the same on the command line and in a file.

use toml::de::{DeTable, DeValue};

use crate::config::{Config, KEYS, Value};
use crate::value;

/// Sets the parameter `name` to what `text` says.
///
/// # Errors
/// There is no such parameter, or the text is no value for it.
pub(crate) fn set(config: &mut Config, name: &str, text: &str) -> Result<(), String> {
    let key = KEYS.iter().find(|key| key.name() == name);
    let key = key.ok_or_else(|| format!("there is no parameter {name}; --help lists all"))?;
    let mistake = |why: String| format!("{name}: {why}");
    match key.value {
        Value::Count(field) => *field(config) = value::count(text).map_err(mistake)?,
        Value::Seconds(field) => *field(config) = value::seconds(text).map_err(mistake)?,
        Value::Rate(field) => *field(config) = value::rate(text).map_err(mistake)?,
        Value::Slow => config.slow = value::factors(text).map_err(mistake)?,
        Value::Sizes => config.sizes = value::counts(text).map_err(mistake)?,
    }
    Ok(())
}

/// Sets what a TOML file says: the same names, with numbers, strings, or lists of them.
///
/// # Errors
/// The text is no TOML, or as `set`.
pub fn read_toml(config: &mut Config, text: &str) -> Result<(), String> {
    let table = DeTable::parse(text).map_err(|error| error.to_string().trim().to_owned())?;
    for (name, value) in table.get_ref() {
        let words =
            words(value.get_ref()).ok_or_else(|| format!("{}: not a number, a string or a list", name.get_ref()))?;
        set(config, name.get_ref(), &words)?;
    }
    Ok(())
}

fn words(value: &DeValue<'_>) -> Option<String> {
    match value {
        DeValue::String(text) => Some(text.to_string()),
        DeValue::Integer(number) => Some(number.to_string().replace('_', "")),
        DeValue::Float(number) => Some(number.to_string().replace('_', "")),
        DeValue::Array(list) => {
            let items: Option<Vec<String>> = list.iter().map(|item| words(item.get_ref())).collect();
            items.map(|items| items.join(","))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_and_the_command_line_say_the_same() {
        let mut by_file = Config::default();
        let text = "ranks = 1_000\nhold = \"20ms\"\nmetadata-rate = 1.5e5\nsizes = [4096, \"1M\"]\nslow = [\"3:4\"]\n";
        read_toml(&mut by_file, text).unwrap();
        let mut by_line = Config::default();
        for (name, text) in
            [("ranks", "1000"), ("hold", "0.02"), ("metadata-rate", "150000"), ("sizes", "4K,1M"), ("slow", "3:4")]
        {
            set(&mut by_line, name, text).unwrap();
        }
        assert_eq!(by_file, by_line);
    }

    #[test]
    fn mistakes_name_the_parameter() {
        let mut config = Config::default();
        assert!(set(&mut config, "rank", "1").unwrap_err().contains("rank"));
        assert!(set(&mut config, "ranks", "x").unwrap_err().contains("ranks"));
        assert!(read_toml(&mut config, "ranks = true").unwrap_err().contains("ranks"));
        assert!(read_toml(&mut config, "ranks = ").is_err());
    }
}
