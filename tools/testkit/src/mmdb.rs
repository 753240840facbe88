//! MaxMind database files as tests write them: format 2.0, one network, a tree of 24-bit records
//! for IPv4 in IPv6.

/// A value of the data section.
#[derive(Debug)]
pub enum Data<'d> {
    Text(&'d str),
    Short(u16),
    Number(u32),
    Long(u64),
    /// A `double`.
    Broken(f64),
    Map(&'d [(&'d str, Data<'d>)]),
    List(&'d [Data<'d>]),
}

fn control(kind: u8, size: usize, out: &mut Vec<u8>) {
    // Extended types have their number, less 7, in a byte of its own; sizes from 29 on are in a
    // byte behind.
    let (upper, extended) = if kind <= 7 {
        (kind << 5, None)
    } else {
        (0, Some(kind - 7))
    };
    out.push(upper | size.min(29) as u8);
    out.extend(extended);
    if size >= 29 {
        out.push((size - 29) as u8);
    }
}

fn write(data: &Data<'_>, out: &mut Vec<u8>) {
    match data {
        Data::Text(text) => {
            control(2, text.len(), out);
            out.extend_from_slice(text.as_bytes());
        }
        Data::Number(number) => {
            control(6, 4, out);
            out.extend_from_slice(&number.to_be_bytes());
        }
        Data::Short(number) => {
            control(5, 2, out);
            out.extend_from_slice(&number.to_be_bytes());
        }
        Data::Long(number) => {
            control(9, 8, out);
            out.extend_from_slice(&number.to_be_bytes());
        }
        Data::Broken(number) => {
            control(3, 8, out);
            out.extend_from_slice(&number.to_be_bytes());
        }
        Data::Map(pairs) => {
            control(7, pairs.len(), out);
            pairs.iter().for_each(|(key, value)| {
                write(&Data::Text(key), out);
                write(value, out);
            });
        }
        Data::List(list) => {
            control(11, list.len(), out);
            list.iter().for_each(|value| write(value, out));
        }
    }
}

/// A database of one network, whose prefix is `bits` of an IPv4 address below `::/96`.
pub fn database(network: [u8; 4], bits: u32, data: &Data<'_>) -> Vec<u8> {
    let (depth, key) = (96 + bits, u128::from(u32::from_be_bytes(network)));
    let mut file = Vec::new();
    for node in 0..depth {
        let bit = (key >> (127 - node)) & 1;
        // The last leads to the data, whose offset counts from 16 behind the number of nodes;
        // elsewhere there is nothing: that number itself.
        let next = if node + 1 == depth {
            depth + 16
        } else {
            node + 1
        };
        let records = if bit == 0 {
            [next, depth]
        } else {
            [depth, next]
        };
        records
            .iter()
            .for_each(|record| file.extend_from_slice(&record.to_be_bytes()[1..]));
    }
    file.extend_from_slice(&[0; 16]);
    write(data, &mut file);
    file.extend_from_slice(b"\xab\xcd\xefMaxMind.com");
    let metadata = [
        ("binary_format_major_version", Data::Short(2)),
        ("binary_format_minor_version", Data::Short(0)),
        ("build_epoch", Data::Long(1)),
        ("database_type", Data::Text("Test")),
        ("ip_version", Data::Short(6)),
        ("languages", Data::List(&[])),
        ("description", Data::Map(&[])),
        ("node_count", Data::Number(depth)),
        ("record_size", Data::Short(24)),
    ];
    write(&Data::Map(&metadata), &mut file);
    file
}
